//! Whole rounds in which a site keeps its records here, through crashes and disk failures.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use ed25519_dalek::SigningKey;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use undertone_api::id::{DatasetId, JobId};
use undertone_failpoints::{FailureKind, FailurePlan, SimulatedCrash};
use undertone_secure_aggregation::journal::{RoundJournal, RoundRecord};
use undertone_secure_aggregation::message::{Reveal, SealedShares, SurvivorSignature};
use undertone_secure_aggregation::modulus::Modulus;
use undertone_secure_aggregation::refusal::{Refusal, SiteError};
use undertone_secure_aggregation::roster::{AcceptedRoster, GroupPolicy, GroupTerms, Roster};
use undertone_secure_aggregation::round::RoundContext;
use undertone_secure_aggregation::server::AdvertisementPhase;
use undertone_secure_aggregation::site::SiteRound;
use undertone_secure_aggregation::site_set::SiteIndex;

use super::{MaskedRoundJournal, RecordError};
use crate::fault;
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::restore::backup;
use crate::testing::{JOB, OURS, clock, ledger_at};

const SITES: usize = 3;
const VECTORS: [[i32; 2]; SITES] = [[5, -7], [100, 20], [-3, 4]];

type Round<'a> = SiteRound<'a, TestJournal>;
type Step<T> = Result<T, SiteError<RecordError>>;

type MemoryRecords = Rc<RefCell<BTreeMap<[u8; 32], RoundRecord>>>;

/// The records of site 0 on disk, or those of another site in memory.
enum TestJournal {
    Disk(MaskedRoundJournal),
    Memory(MemoryRecords),
}

impl RoundJournal for TestJournal {
    type Error = RecordError;

    fn load(&mut self, slot: &[u8; 32]) -> Result<Option<RoundRecord>, RecordError> {
        match self {
            Self::Disk(journal) => journal.load(slot),
            Self::Memory(records) => Ok(records.borrow().get(slot).cloned()),
        }
    }

    fn store(&mut self, slot: &[u8; 32], record: &RoundRecord) -> Result<(), RecordError> {
        match self {
            Self::Disk(journal) => journal.store(slot, record)?,
            Self::Memory(records) => drop(records.borrow_mut().insert(*slot, record.clone())),
        }
        Ok(())
    }
}

/// Three sites of a group in which one may drop out.
struct TestGroup {
    dir: tempfile::TempDir,
    identities: Vec<SigningKey>,
    accepted: Vec<AcceptedRoster>,
    context: RoundContext,
    /// The records of the other sites.
    memory: [MemoryRecords; SITES],
    /// The number of entered rounds: each process draws another secret.
    entered: Cell<u64>,
}

impl TestGroup {
    fn new() -> Self {
        let identities: Vec<SigningKey> = (1..=SITES).map(|site| SigningKey::from_bytes(&[site as u8; 32])).collect();
        let keys: Vec<[u8; 32]> = identities.iter().map(|identity| identity.verifying_key().to_bytes()).collect();
        let roster = Roster::new([9; 32], &keys, GroupTerms { smallest_group: 2, colluding: 0 }).unwrap();
        let accept = |identity: &SigningKey| {
            roster.clone().accept(&identity.verifying_key(), GroupPolicy::default(), |_| true).unwrap()
        };
        let context = RoundContext::new(&roster, "private", 1, 2, Modulus::new(16).unwrap()).unwrap();
        let accepted = identities.iter().map(accept).collect();
        let dir = tempfile::tempdir().unwrap();
        Self { dir, identities, accepted, context, memory: Default::default(), entered: Cell::new(0) }
    }

    /// Returns the journal of site 0.
    fn journal(&self) -> MaskedRoundJournal {
        MaskedRoundJournal::new(&Folder::new(self.dir.path()).work(JOB, OURS))
    }

    fn enter(&self, site: usize) -> Step<Round<'_>> {
        self.entered.set(self.entered.get() + 1);
        let mut rng = ChaCha20Rng::seed_from_u64(self.entered.get());
        let journal = match site {
            0 => TestJournal::Disk(self.journal()),
            _ => TestJournal::Memory(Rc::clone(&self.memory[site])),
        };
        SiteRound::enter(&self.accepted[site], &self.identities[site], self.context, journal, &mut rng)
    }

    /// Takes a step in a process of its own, and again in another one as long as the process dies or its disk fails.
    fn step<T>(&self, site: usize, act: impl Fn(&mut Round<'_>) -> Step<T>) -> T {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.enter(site).and_then(|mut round| act(&mut round)))) {
                Ok(Ok(message)) => return message,
                Ok(Err(SiteError::Journal(RecordError::Folder(_)))) => {}
                Ok(Err(error)) => panic!("site {site}: {error}"),
                Err(payload) => assert!(payload.is::<SimulatedCrash>(), "site {site} panicked"),
            }
        }
    }

    /// Plays a round in which site 2 drops out after it has shared, and takes each step twice. Returns the sum.
    fn play(&self) -> Vec<i32> {
        let roster = self.accepted[0].roster();
        let mut phase = AdvertisementPhase::new(roster, self.context);
        for site in 0..SITES {
            let advertisement = self.step(site, |round| Ok(round.advertisement()));
            assert_eq!(self.step(site, |round| Ok(round.advertisement())), advertisement);
            phase.receive(advertisement).unwrap();
        }
        let mut phase = phase.close().unwrap();
        let list = phase.advertisements().as_slice().to_vec();
        for site in 0..SITES {
            let share = || -> Vec<SealedShares> { self.step(site, |round| round.share(list.clone())) };
            let shares = share();
            assert_eq!(share(), shares);
            phase.receive(site as SiteIndex, shares).unwrap();
        }
        let mut phase = phase.close().unwrap();
        for (site, vector) in VECTORS.iter().enumerate().take(2) {
            let shares = phase.shares_for(site as SiteIndex);
            let mask = || self.step(site, |round| round.mask(shares.clone(), vector));
            let masked = mask();
            assert_eq!(mask(), masked);
            phase.receive(&masked).unwrap();
        }
        let mut phase = phase.close().unwrap();
        let survivors = phase.survivors();
        for site in 0..2 {
            let sign = || -> SurvivorSignature { self.step(site, |round| round.sign(survivors)) };
            let signature = sign();
            assert_eq!(sign(), signature);
            phase.receive(signature).unwrap();
        }
        let mut phase = phase.close().unwrap();
        for site in 0..2 {
            let reveal = || -> Reveal { self.step(site, |round| round.reveal(phase.signatures())) };
            let revealed = reveal();
            assert_eq!(reveal(), revealed);
            phase.receive(revealed).unwrap();
        }
        phase.open().unwrap()
    }
}

#[test]
fn failure_at_each_write_never_changes_a_message() {
    for accident in [FailureKind::Crash, FailureKind::Disk] {
        let (mut place, mut is_interrupted) = (0, true);
        while is_interrupted {
            place += 1;
            let group = TestGroup::new();
            fault::plan(Some(FailurePlan { accident, after: place }));
            let sum = group.play();
            is_interrupted = fault::plan(None).is_none();
            assert_eq!(sum, [105, 13], "{accident:?} at {place}");
        }
        // Five records, each with a place before and after its sync.
        assert_eq!(place, 11, "{accident:?}");
    }
}

#[test]
fn decisions_survive_a_restart() {
    let group = TestGroup::new();
    group.play();
    let mut again = group.enter(0).unwrap();
    let record = again.record();
    assert!(record.is_revealed() && record.survivors() == Some([0, 1].into_iter().collect()));
    let other = [0, 1, 2].into_iter().collect();
    let refused = again.sign(other);
    assert!(matches!(refused, Err(SiteError::Refused(Refusal::SecondSurvivors { .. }))), "{refused:?}");
    again.close().unwrap();
    assert!(matches!(group.enter(0), Err(SiteError::Refused(Refusal::RoundClosed))));
    let path = group.journal().path(group.context.slot());
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(r#""secret":null"#), "{text}");
}

#[test]
fn unreadable_record_is_an_error_and_no_new_round() {
    let group = TestGroup::new();
    group.enter(0).map(drop).unwrap();
    let path = group.journal().path(group.context.slot());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let entered = group.enter(0).map(drop);
    assert!(matches!(entered, Err(SiteError::Journal(RecordError::Malformed { .. }))), "{entered:?}");
}

#[test]
fn backup_has_no_record_of_a_round() {
    let group = TestGroup::new();
    let folder = Folder::new(group.dir.path());
    SiteKey::load_or_make(&folder.key()).unwrap();
    drop(ledger_at(&folder));
    group.enter(0).map(drop).unwrap();
    let name = hex::encode(group.context.slot());
    let record = folder.work(JOB, OURS).join("masked-rounds").join(&name);
    assert!(record.exists());
    let file = group.dir.path().join("site.backup");
    backup(&folder, &file, None, clock()()).unwrap();
    let archive = std::fs::read(file).unwrap();
    let has = |text: &str| archive.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("ledger.db"), "the names in an archive are readable");
    assert!(!has(&name) && !has("masked-rounds"));
    // Parts are told apart by their folder.
    let other =
        MaskedRoundJournal::new(&folder.work(JobId(uuid::Uuid::from_u128(5)), DatasetId(uuid::Uuid::from_u128(6))));
    assert_ne!(other.path(group.context.slot()), record);
}
