use std::sync::Arc;

use undertone_api::id::{JobId, LineageId};
use undertone_api::job::audit::{AuditFinding, AuditPlan, AuditTrial, AuditVerdict, CanaryFamily, TrialResult};
use undertone_api::signed::AuditStatement;
use undertone_privacy::Delta;
use uuid::Uuid;

use super::freeze::{clear, current_freeze};
use super::{AssessmentBasis, AuditsError, state, statement};
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::ledger::Ledger;
use crate::ledger::error::LedgerError;
use crate::ledger::release_context::ReleaseContext;
use crate::store::Store;
use crate::testing::{JOB, LINEAGE, OURS, WORKER, charge, clock, limit, sampled_gaussian, stored_release};

const ROUNDS: u32 = 10;
const TRIAL: AuditTrial = AuditTrial { family: CanaryFamily::Direction, canaries: 500, guesses: 200 };

struct AuditSite {
    store: Arc<Store>,
    key: SiteKey,
    ledger: Ledger,
    _dir: tempfile::TempDir,
}

fn release_context(job: JobId, lineage: LineageId) -> ReleaseContext {
    ReleaseContext {
        job,
        dataset: OURS,
        lineage,
        manifest: "digest".to_owned(),
        charge: charge(sampled_gaussian(0.125, 4.0), 12),
    }
}

impl AuditSite {
    /// Sets up a site that has paid every round of an audited job.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let key = SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
        let store = Arc::new(Store::create(&folder.ledger()).expect("the folder is writable"));
        let lock = folder.lock().expect("nobody else writes");
        let ledger = Ledger::open(Arc::clone(&store), lock, key.clone(), WORKER, clock()).expect("it is empty");
        let site = Self { store, key, ledger, _dir: dir };
        site.ledger.reserve(&release_context(JOB, LINEAGE), &limit(8.0)).expect("there is room");
        for round in 1..=ROUNDS {
            site.pay(round).expect("it is reserved");
        }
        site
    }

    fn pay(&self, round: u32) -> Result<(), LedgerError> {
        self.ledger
            .commit(
                &release_context(JOB, LINEAGE),
                &sampled_gaussian(0.125, 4.0),
                &stored_release(&release_context(JOB, LINEAGE), "private", round),
            )
            .map(drop)
    }

    fn reserve(&self, job: u128, lineage: LineageId) -> Result<(), LedgerError> {
        let under = release_context(JobId(Uuid::from_u128(job)), lineage);
        let checked = self.ledger.check(&under, &limit(8.0));
        let reserved = self.ledger.reserve(&under, &limit(8.0));
        assert_eq!(checked.is_ok(), reserved.is_ok(), "both say the same");
        reserved
    }

    fn state(&self, correct: u32) -> Result<(AuditStatement, AuditVerdict), AuditsError> {
        let ground = AssessmentBasis {
            audited: AuditPlan { series: "private".to_owned(), trials: vec![TRIAL], beside: Vec::new() },
            under: release_context(JOB, LINEAGE),
            worker: WORKER,
            delta: self.ledger.delta(&release_context(JOB, LINEAGE)).expect("it is open").expect("it has a budget"),
        };
        let finding = AuditFinding { trials: vec![TrialResult { trial: TRIAL, correct }], attacks: Vec::new() };
        let (signed, verdict) = state(&self.store, &self.key, &ground, &finding, clock()())?;
        assert_eq!(statement(&self.store, JOB, OURS).expect("it is open"), Some(signed.clone()));
        Ok((signed.open(&self.key.public()).expect("the site's own signature"), verdict))
    }
}

fn is_frozen(answer: &Result<(), LedgerError>) -> bool {
    matches!(answer, Err(LedgerError::Frozen { reason, .. }) if reason.contains("audit measured"))
}

#[test]
fn disproved_claim_freezes_the_account_until_it_is_cleared() {
    let site = AuditSite::new();
    let (stated, verdict) = site.state(200).expect("it is what was promised");
    assert_eq!((verdict, stated.assessment.verdict), (AuditVerdict::Disproved, AuditVerdict::Disproved));
    assert!(stated.assessment.blocking > stated.assessment.claim);
    assert_eq!(
        current_freeze(&site.store, LINEAGE).expect("it is open").map(|frozen| frozen.job),
        Some(JOB.to_string())
    );

    assert!(is_frozen(&site.reserve(70, LINEAGE)), "nothing new");
    assert!(is_frozen(&site.pay(11)), "and nothing more of what was reserved");
    let other = LineageId(Uuid::from_u128(77));
    site.reserve(71, other).expect("another line is another account");
    assert_eq!(site.ledger.settle(&release_context(JOB, LINEAGE)).expect("what is left can be given back"), 2);

    assert!(clear(&site.store, LINEAGE, "the noise was compiled out; mended", clock()()).expect("it is open"));
    assert_eq!(current_freeze(&site.store, LINEAGE).expect("it is open"), None);
    site.reserve(70, LINEAGE).expect("it goes on");
    assert!(!clear(&site.store, LINEAGE, "again", clock()()).expect("it is open"), "there is nothing to clear");
}

#[test]
fn honest_finding_is_stated_and_changes_nothing() {
    let site = AuditSite::new();
    let (stated, verdict) = site.state(104).expect("it is what was promised");
    assert_eq!(verdict, AuditVerdict::Consistent);
    assert_eq!((stated.releases, stated.event.clone()), (u64::from(ROUNDS), sampled_gaussian(0.125, 4.0)));
    assert_eq!(stated.assessment.delta, Delta::new(1e-6).expect("a probability"), "that of the site's account");
    assert!(stated.assessment.blocking <= stated.assessment.tight);
    site.pay(11).expect("nothing is frozen");
}

#[test]
fn what_was_stated_stands() {
    let site = AuditSite::new();
    let (first, _) = site.state(104).expect("it is what was promised");
    assert_eq!(site.state(200).expect("said before").0, first);
    assert_eq!(current_freeze(&site.store, LINEAGE).expect("it is open"), None);
}

#[test]
fn more_right_guesses_than_guesses_are_no_finding() {
    let site = AuditSite::new();
    assert!(matches!(site.state(201), Err(AuditsError::Assess(_))));
    assert_eq!(statement(&site.store, JOB, OURS).expect("it is open"), None);
}
