use time::OffsetDateTime;
use undertone_api::id::DatasetId;
use undertone_api::job::PartyTerms;
use undertone_api::signed::{Signed, SiteDecision};
use uuid::Uuid;

use super::{
    DecisionOrigin, RunOutcome, acknowledge, acknowledge_outcome, decide, decision, list_jobs, open_runs,
    pending_decisions, record_outcome, record_start, remember, run,
};
use crate::store::Store;
use crate::testing::{JOB, OURS};

const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
    (dir, store)
}

fn signed(payload: &str) -> Signed {
    Signed { payload: payload.to_owned(), signature: String::new() }
}

fn decision_on(manifest: &str, approve: bool) -> SiteDecision {
    SiteDecision {
        manifest: manifest.to_owned(),
        job: JOB,
        dataset: OURS,
        approve,
        reason: String::new(),
        terms: PartyTerms::default(),
        at: AT,
    }
}

#[test]
fn job_never_comes_under_a_second_manifest() {
    let (_dir, store) = store();
    assert_eq!(remember(&store, JOB, OURS, &signed("one"), AT).expect("it is open"), None);
    assert_eq!(remember(&store, JOB, OURS, &signed("one"), AT).expect("it is open"), None);
    let first = Some(signed("one").digest());
    assert_eq!(remember(&store, JOB, OURS, &signed("two"), AT).expect("it is open"), first);
    let other = DatasetId(Uuid::from_u128(40));
    assert_eq!(remember(&store, JOB, other, &signed("two"), AT).expect("it is open"), first);
}

#[test]
fn last_decision_on_exactly_one_manifest_counts() {
    let (_dir, store) = store();
    decide(&store, &decision_on("one", true), DecisionOrigin::Terminal).expect("it is open");
    assert_eq!(decision(&store, JOB, OURS, "two").expect("it is open"), None);
    let approved = |store| decision(store, JOB, OURS, "one").expect("it is open").map(|d| d.decision.approve);
    assert_eq!(approved(&store), Some(true));
    decide(&store, &decision_on("one", false), DecisionOrigin::Terminal).expect("it is open");
    assert_eq!(approved(&store), Some(false));
}

#[test]
fn acknowledged_decision_is_not_sent_again() {
    let (_dir, store) = store();
    decide(&store, &decision_on("one", true), DecisionOrigin::Policy).expect("it is open");
    let waiting = pending_decisions(&store).expect("it is open");
    assert_eq!(waiting.len(), 1);
    acknowledge(&store, waiting[0].id).expect("it is open");
    assert_eq!(pending_decisions(&store).expect("it is open"), []);
}

#[test]
fn run_is_unfinished_until_its_end_is_noted() {
    let (_dir, store) = store();
    record_start(&store, JOB, OURS, "first").expect("it is open");
    record_start(&store, JOB, OURS, "second").expect("it is open");
    assert_eq!(open_runs(&store).expect("it is open"), [(JOB, OURS, "second".to_owned())]);
    let outcome = RunOutcome::GaveUp { reason: "no data".to_owned() };
    record_outcome(&store, JOB, OURS, &outcome).expect("it is open");
    assert_eq!(open_runs(&store).expect("it is open"), []);
    acknowledge_outcome(&store, JOB, OURS).expect("it is open");
    let row = run(&store, JOB, OURS).expect("it is open").expect("it began");
    assert_eq!((row.ended, row.is_acknowledged), (Some(outcome), true));
    remember(&store, JOB, OURS, &signed("one"), AT).expect("it is open");
    assert!(list_jobs(&store).expect("it is open")[0].run.is_some());
}
