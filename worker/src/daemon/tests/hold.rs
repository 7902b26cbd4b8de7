//! Parts that this site holds stop here in every case, and the server receives a signed notification.

use time::OffsetDateTime;
use undertone_api::job::PartyTerms;
use undertone_api::signed::SiteHold;

use super::*;
use crate::daemon::part::{WorkExamination, examine_work};
use crate::fixture::JOB;
use crate::gateway::OfferedWork;
use crate::site::datasets::note_registered;
use crate::site::holds::{self, HoldOrigin};
use crate::site::jobs::{self, DecisionOrigin};

fn manual_policy() -> String {
    TEMPLATE.replace("approval = \"steward\"", "approval = \"manual\"")
}

fn make_statement(manifest: &Signed, hold: bool) -> SiteHold {
    let reason = if hold { "a fire drill" } else { "" }.to_owned();
    SiteHold { manifest: manifest.digest(), job: JOB, dataset: OURS, hold, reason, at: OffsetDateTime::UNIX_EPOCH }
}

fn make_work(signed: &Signed) -> OfferedWork {
    OfferedWork {
        manifest: signed.clone(),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward named by the server".to_owned()),
        approval: None,
    }
}

fn open_registered(place: &TestSite) -> Arc<Site> {
    let site = place.open();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

fn received_holds(server: &FakeServer, place: &TestSite) -> Vec<SiteHold> {
    let key = SiteKey::load(&place.folder().key()).expect("it is there").public();
    let state = server.state.lock().expect("no test panicked");
    state.holds.iter().map(|signed| signed.open(&key).expect("the site signed it")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn held_work_waits_without_payment() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"server\""));
    let site = open_registered(&place);
    let manifest = honest_manifest(spec(), Visibility::Private);
    let signed = sign(&manifest);
    assert!(matches!(
        examine_work(&site, &make_work(&signed), JOB).expect("the disk works"),
        WorkExamination::Ready(_)
    ));
    let mut exchange = open_exchange(&site, &manifest, Visibility::Private);
    holds::record(&site.store, &make_statement(&signed, true), HoldOrigin::Terminal).expect("it is open");
    assert!(matches!(
        examine_work(&site, &make_work(&signed), JOB).expect("the disk works"),
        WorkExamination::Waiting(_)
    ));
    let before = site.ledger.books().expect("it is open").entries.sequence;
    let error = exchange.clear(RoundKey::new("private", 1)).map(drop).expect_err("it is held");
    assert!(matches!(&error, RunError::Stopped(reason) if reason.to_string().contains("a fire drill")), "{error}");
    assert_eq!(site.ledger.books().expect("it is open").entries.sequence, before, "nothing was paid");
    holds::record(&site.store, &make_statement(&signed, false), HoldOrigin::Terminal).expect("it is open");
    assert!(matches!(
        examine_work(&site, &make_work(&signed), JOB).expect("the disk works"),
        WorkExamination::Ready(_)
    ));
    exchange.clear(RoundKey::new("private", 1)).map(drop).expect("it goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn vector_of_a_held_job_waits_on_disk() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = open_registered(&place);
    let manifest = make_open_job();
    let signed = sign(&manifest);
    let mut exchange = open_exchange(&site, &manifest, Visibility::Open);
    let state = Arc::clone(&server.state);
    run_blocking(move || {
        let clearance = exchange.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0, 2.0], clearance).expect("it was published");
        holds::record(&site.store, &make_statement(&signed, true), HoldOrigin::Terminal).expect("it is open");
        let error = exchange.send_vector(RoundKey::new("open", 1), vector).expect_err("it is held");
        assert!(matches!(&error, RunError::Stopped(reason) if reason.to_string().contains("a fire drill")), "{error}");
        assert!(state.lock().expect("no test panicked").vectors.is_empty(), "nothing left");
        assert_eq!(exchange.round_progress(RoundKey::new("open", 1)).expect("the disk works"), RoundProgress::Stored);
        holds::record(&site.store, &make_statement(&signed, false), HoldOrigin::Terminal).expect("it is open");
        exchange.resend_vector(RoundKey::new("open", 1)).expect("it goes on");
        assert_eq!(state.lock().expect("no test panicked").vectors.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_the_steward_stops_the_deadlines() {
    let server = start(false).await;
    let place = TestSite::new(&server, &manual_policy());
    let signed = sign(&honest_manifest(spec(), Visibility::Private));
    offer(
        &server,
        Offer::Work(v1::Work {
            manifest: Some(signed.clone().into()),
            dataset_id: OURS.to_string(),
            lease: "lease".to_owned(),
            lease_seconds: 60,
            steward_approved: true,
            steward: "a steward named by the server".to_owned(),
            approval: String::new(),
        }),
    );
    run_until(&place, &server, |state| !state.holds.is_empty()).await;
    let first = received_holds(&server, &place)[0].clone();
    assert_eq!((first.hold, &first.manifest, first.job), (true, &signed.digest(), JOB));
    assert!(first.reason.contains("steward"), "{}", first.reason);

    let site = place.open();
    site.find_datasets().expect("the folder can be read");
    let approval = SiteDecision {
        manifest: signed.digest(),
        job: JOB,
        dataset: OURS,
        approve: true,
        reason: String::new(),
        terms: PartyTerms::default(),
        at: OffsetDateTime::UNIX_EPOCH,
    };
    jobs::decide(&site.store, &approval, DecisionOrigin::Terminal).expect("it is open");
    assert!(matches!(
        examine_work(&site, &make_work(&signed), JOB).expect("the disk works"),
        WorkExamination::Ready(_)
    ));
    drop(site);
    run_until(&place, &server, |state| state.holds.len() > 1).await;
    assert!(
        !received_holds(&server, &place).last().expect("it has received one").hold,
        "the others' deadlines run again"
    );
}
