//! Restores the ledger to every step of a release, after a process that reached every later step. It is restored in
//! place, on a new machine without the work folder, and in place with a server that hides its records. No payment ever
//! releases a second set of bytes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::job::active_learning::POOL;
use undertone_api::job::transcription::HISTOGRAM;
use undertone_api::signed::Manifest;

use super::fault::count_paid;
use super::{TestSite, batch, fault, honest_manifest, pool, run_blocking, sign};
use crate::clouds::{Ear, FakeCloud, KEY};
use crate::daemon::exchange::SiteExchange;
use crate::daemon::lease::Lease;
use crate::daemon::maintenance::compare_ledgers;
use crate::daemon::{PartSession, Site};
use crate::dp::release::Outgoing;
use crate::fixture::{JOB, OURS, limit, local, spec};
use crate::gateway::fake::log::TestLog;
use crate::gateway::fake::{FakeServer, start};
use crate::run::{Averaging as _, Outbound as _, Questions as _, RoundKey, RoundProgress, RunContext as _};
use crate::site::admission::{ExaminedManifest, examine};
use crate::site::clock::system;
use crate::site::datasets::LocalDataset;
use crate::site::ledger::verify;
use crate::site::outbox::ReleaseOutbox;
use crate::site::policy::TEMPLATE;
use crate::site::restore::mark_restored;
use crate::site::store::{Store, StoreError};
use crate::speech::transcribe::outbound::{BatchDraft, BatchPermit, SealedSounds, deliver};
use crate::speech::transcribe::provider::line::ProviderLine;
use crate::speech::transcribe::provider::settings::ProviderSettings;
use crate::speech::transcribe::wav;

/// The steps of a release, in order. `Stored` and `Sent` do not change the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReleaseStep {
    Nothing,
    Reserved,
    Stored,
    Paid,
    Countersigned,
    Sent,
    Accepted,
}

use ReleaseStep::{Accepted, Countersigned, Nothing, Paid, Reserved, Sent, Stored};

/// The steps after which the first process crashes.
const CRASHES: [ReleaseStep; 6] = [Reserved, Stored, Paid, Countersigned, Sent, Accepted];
/// The steps after which the restored copy was made.
const COPIES: [ReleaseStep; 5] = [Nothing, Reserved, Paid, Countersigned, Accepted];

/// The place of the restored older copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestorePlace {
    /// In place, beside the job's work folder.
    InPlace,
    /// On a machine without a work folder, by the documented command.
    NewMachine,
    /// In place, with a server that shows no receipt and countersigns anything.
    DishonestServer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReleaseKind {
    Vector,
    Pool,
    Batch,
}

impl ReleaseKind {
    const fn series(self) -> &'static str {
        match self {
            Self::Vector => "private",
            Self::Pool => POOL,
            Self::Batch => HISTOGRAM,
        }
    }

    fn manifest(self) -> Manifest {
        match self {
            Self::Vector => honest_manifest(spec(), Visibility::Private),
            Self::Pool => pool::job(|_| ()),
            Self::Batch => batch::job(),
        }
    }

    fn local(self) -> LocalDataset {
        if self == Self::Batch { batch::recordings() } else { local(Visibility::Private) }
    }

    fn policy(self) -> String {
        match self {
            Self::Vector => TEMPLATE.to_owned(),
            Self::Pool => pool::policy(),
            Self::Batch => batch::policy(),
        }
    }
}

/// A site, its server and a recognizer, for the processes of one part.
struct TestPart {
    kind: ReleaseKind,
    server: FakeServer,
    place: TestSite,
    cloud: FakeCloud,
    copies: PathBuf,
}

impl TestPart {
    async fn new(kind: ReleaseKind) -> Self {
        let server = start(false).await;
        let place = TestSite::new(&server, &kind.policy());
        let ear: Ear = Arc::new(|_: &[u8]| vec![("word".to_owned(), 0.0, 0.025)]);
        let cloud = FakeCloud::start(ear).await.expect("loopback has a free port");
        let copies = place.dir.path().join("copies");
        std::fs::create_dir(&copies).expect("the folder is writable");
        Self { kind, server, place, cloud, copies }
    }

    fn line(&self) -> ProviderLine {
        let text = format!(
            "name = \"one\"\nprotocol = \"deepgram\"\nurl = \"{}\"\nkey_variable = \"K\"\nrequests_per_minute = 60000\n",
            self.cloud.url()
        );
        let settings: ProviderSettings = toml::from_str(&text).expect("it is a provider");
        settings.line(std::path::Path::new("."), |_| Some(KEY.into()), system()).expect("it has a key").without_pauses()
    }

    fn examined(&self, site: &Site) -> ExaminedManifest {
        let datasets = [self.kind.local()];
        examine(&sign(&self.kind.manifest()), OURS, &site.identity, &datasets, (site.clock)()).expect("it is honest")
    }

    fn open_exchange(&self, site: &Arc<Site>) -> SiteExchange {
        let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
        let handle = tokio::runtime::Handle::current();
        SiteExchange::new(handle, Arc::clone(site), lease, self.examined(site)).expect("the folder is writable")
    }

    /// Runs up to a step, and copies the ledger after each.
    async fn run_to(&self, until: ReleaseStep) {
        let site = self.place.open();
        let series = self.kind.series();
        let copy = |step: ReleaseStep| {
            site.store.copy_to(&self.copies.join(format!("{step:?}"))).expect("the disk has room");
            step == until
        };
        copy(Nothing);
        let under = self.examined(&site).release_context().expect("it is charged");
        site.ledger.reserve(&under, &limit(8.0)).expect("there is room");
        if copy(Reserved) {
            return;
        }
        let session = PartSession::new(&site, self.examined(&site)).expect("the folder is writable");
        let release = self.make(&site).await;
        // The first step of `pay_vector` and `pay_pool`; for a batch, `BatchDraft::seal` did it.
        let outbox = ReleaseOutbox::new(JOB, OURS, session.folder());
        if let Some((bytes, length)) = release.bytes() {
            outbox.store(series, 1, &bytes, length).expect("the disk has room");
        }
        if copy(Stored) {
            return;
        }
        if let TestRelease::Batch(batch) = &release {
            session.pay_batch(&site, series, 1, batch).expect("it is reserved");
        }
        let request = session.charge(&site, series, 1).expect("it is reserved").expect("the server does not know it");
        if copy(Paid) {
            return;
        }
        let answer = site.gateway.countersign("lease", &request.receipts).await.expect("the server answers");
        session.store_countersignatures(&site, &request, &answer).expect("it holds");
        if copy(Countersigned) {
            return;
        }
        if let TestRelease::Batch(batch) = &release {
            let departure = session.permit_departure(&site, series, 1, batch).expect("it is paid");
            let stop = CancellationToken::new();
            let delivery = deliver(batch, 0, &self.line(), &stop, &departure).await.expect("the recognizer is there");
            assert_eq!(delivery.left, 0);
            if copy(Sent) {
                return;
            }
        } else {
            let submission = session.submission(&site, series, 1).expect("it is stored");
            let parcel = &submission.parcel;
            let receipts = &submission.receipts;
            let gateway = &site.gateway;
            if self.kind == ReleaseKind::Vector {
                gateway.submit("lease", series, 1, parcel, receipts).await.expect("the server takes it");
            } else {
                gateway.submit_pool("lease", series, 1, parcel, receipts).await.expect("the server takes it");
            }
            if copy(Sent) {
                return;
            }
            session.mark_received(&site, series, 1, &submission).expect("the disk has room");
        }
        copy(Accepted);
    }

    /// Makes a release as a run does; every call makes a different one.
    async fn make(&self, site: &Arc<Site>) -> TestRelease {
        let kind = self.kind;
        let mut exchange = self.open_exchange(site);
        let recipient = self.line().recipient().to_owned();
        run_blocking(move || kind.make(&mut exchange, recipient)).await
    }

    /// Restores an older copy of the ledger.
    fn restore_copy(&self, copy: ReleaseStep, place: RestorePlace) {
        let folder = self.place.folder();
        for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
            drop(std::fs::remove_file(folder.root().join(file)));
        }
        std::fs::copy(self.copies.join(format!("{copy:?}")), folder.ledger()).expect("the folder is writable");
        match place {
            RestorePlace::InPlace => {}
            RestorePlace::NewMachine => {
                drop(std::fs::remove_dir_all(folder.work(JOB, OURS)));
                let store = Store::create(&folder.ledger()).expect("it is there");
                mark_restored(&store, "last night", 0, time::OffsetDateTime::UNIX_EPOCH).expect("it is noted");
            }
            RestorePlace::DishonestServer => {
                let mut state = self.server.state.lock().expect("no test panicked");
                state.signed.clear();
                state.log = TestLog::default();
            }
        }
    }

    /// Resumes as the daemon and a run do; any refusal ends the part.
    async fn resume(&self) {
        let site = self.place.open();
        compare_ledgers(&site).await.expect("the server answers");
        let under = self.examined(&site).release_context().expect("it is charged");
        if site.ledger.reserve(&under, &limit(8.0)).is_err() {
            return;
        }
        let kind = self.kind;
        let line = self.line();
        let mut exchange = self.open_exchange(&site);
        let series = kind.series();
        let recipient = line.recipient().to_owned();
        run_blocking(move || {
            let batch = SealedSounds::open(&exchange.folder().join("out")).expect("the disk works").map(Arc::new);
            let answer = match (exchange.round_progress(RoundKey::new(series, 1)).expect("the disk works"), batch) {
                (_, Some(batch)) => exchange.dispatch_batch(RoundKey::new(series, 1), &batch, &[line]).map(drop),
                (RoundProgress::Accepted | RoundProgress::Lost, None) => Ok(()),
                (RoundProgress::Stored, None) if kind == ReleaseKind::Vector => {
                    exchange.resend_vector(RoundKey::new(series, 1))
                }
                (RoundProgress::Stored, None) => exchange.resend_pool(RoundKey::new(series, 1)),
                (RoundProgress::Untouched, None) => {
                    if exchange.clear(RoundKey::new(series, 1)).is_err() {
                        return;
                    }
                    match kind.make(&mut exchange, recipient) {
                        TestRelease::Vector(vector) => exchange.send_vector(RoundKey::new(series, 1), vector),
                        TestRelease::Pool(pool) => exchange.send_pool(RoundKey::new(series, 1), pool),
                        TestRelease::Batch(batch) => {
                            exchange.dispatch_batch(RoundKey::new(series, 1), &batch, &[line]).map(drop)
                        }
                    }
                }
            };
            drop(answer);
        })
        .await;
    }

    /// Returns the number of different releases at the server or the recognizer, and the number of payments that the
    /// server knows.
    fn count_releases(&self) -> (usize, usize) {
        let state = self.server.state.lock().expect("no test panicked");
        let bytes: BTreeSet<Vec<u8>> = match self.kind {
            ReleaseKind::Vector => state.submissions.iter().map(|(_, bytes)| bytes.clone()).collect(),
            ReleaseKind::Pool => state.posed.iter().map(|(_, bytes)| bytes.clone()).collect(),
            ReleaseKind::Batch => self.cloud.received().into_iter().map(|one| one.wav).collect(),
        };
        (bytes.len(), state.receipts.len())
    }
}

/// A release of one kind.
enum TestRelease {
    Vector(Outgoing),
    Pool(crate::queries::gate::OutgoingPool),
    Batch(Arc<SealedSounds>),
}

impl TestRelease {
    /// Returns the stored bytes; a batch has its own folder.
    fn bytes(&self) -> Option<(Vec<u8>, u64)> {
        match self {
            Self::Vector(vector) => {
                let bytes = vector.vector().iter().flat_map(|value| value.to_le_bytes()).collect();
                Some((bytes, vector.vector().len() as u64))
            }
            Self::Pool(pool) => Some((pool.bytes().to_vec(), pool.questions())),
            Self::Batch(_) => None,
        }
    }
}

impl ReleaseKind {
    fn make(self, exchange: &mut SiteExchange, recipient: String) -> TestRelease {
        match self {
            Self::Vector => TestRelease::Vector(fault::release(exchange, 1)),
            Self::Pool => TestRelease::Pool(pool::release(exchange)),
            Self::Batch => {
                let clearance = exchange.clear(RoundKey::new(HISTOGRAM, 1)).expect("it is reserved");
                let event = batch::spec().event().expect("it has noise");
                let permit = BatchPermit::new(clearance, &event).expect("it was granted");
                let folder = exchange.folder().join("out");
                let mut draft = BatchDraft::begin(&folder, vec![(recipient, 1)]).expect("the disk has room");
                let noise = random_sound();
                draft.add(0, 0, &wav::write(&noise)).expect("it is empty");
                TestRelease::Batch(Arc::new(draft.seal(permit).expect("it is whole")))
            }
        }
    }
}

/// Makes a sound that differs from all others.
fn random_sound() -> Vec<f32> {
    use rand_chacha::rand_core::Rng as _;

    use crate::dp::randomness::{Purpose, Randomness};
    let mut rng = Randomness::from_os(Purpose::Dummies).stream(0);
    (0..800).map(|_| (rng.next_u32() % 1_000) as f32 / 2_000.0).collect()
}

/// Tests every pair of a crash and an older copy, in every way to restore it.
async fn test_rollbacks(kind: ReleaseKind) {
    for crash in CRASHES {
        for copy in COPIES.into_iter().filter(|copy| *copy <= crash) {
            for place in [RestorePlace::InPlace, RestorePlace::NewMachine, RestorePlace::DishonestServer] {
                let case = format!("{kind:?}: crashed after {crash:?}, copy of {copy:?}, {place:?}");
                let part = TestPart::new(kind).await;
                part.run_to(crash).await;
                part.restore_copy(copy, place);
                let before = part.count_releases();
                part.resume().await;
                let (bytes, receipts) = part.count_releases();
                assert!(bytes <= receipts, "{case}: {bytes} different releases for {receipts} payments");
                // The release in the work folder is the only one, for any receipts of the server.
                let is_single = kind != ReleaseKind::Vector || place != RestorePlace::NewMachine;
                assert!(!is_single || bytes <= 1, "{case}: {bytes} different releases");
                let site = part.place.open();
                let key = site.key.public();
                let verification = site.store.read(|db| verify(db, &key)).expect("every row holds");
                assert!(
                    verification.receipts as usize >= receipts.min(before.1) || place == RestorePlace::DishonestServer,
                    "{case}"
                );
                assert!(count_paid(&site) >= bytes as u64, "{case}: the site has charged every release");
                // A job that was open in the copy gets nothing back if the copy lacks a payment.
                let was_missing = before.1 > 0 && copy < Paid && place != RestorePlace::DishonestServer;
                let is_open = copy >= Reserved;
                if is_open && (was_missing || place == RestorePlace::NewMachine) {
                    assert_eq!(site.ledger.settle_job(JOB, None).expect("it is open"), 0, "{case}");
                }
                let lost_receipts = site.store.read(|db| {
                    let sql = "SELECT COUNT(*) FROM receipt AS paid WHERE NOT EXISTS (SELECT 1 FROM vector
                               WHERE job = paid.job AND dataset = paid.dataset AND series = paid.series AND round = paid.round)";
                    db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| StoreError::Row(error.to_string()))
                });
                assert_eq!(
                    lost_receipts.expect("it is open"),
                    0,
                    "{case}: every receipt refers to bytes, or to their loss"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_ledger_never_buys_a_second_vector() {
    test_rollbacks(ReleaseKind::Vector).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_ledger_never_buys_a_second_pool() {
    test_rollbacks(ReleaseKind::Pool).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_ledger_never_buys_a_second_batch() {
    test_rollbacks(ReleaseKind::Batch).await;
}
