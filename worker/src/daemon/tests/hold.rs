//! Parts that this site holds stop here in every case, and the server receives a signed notification.

use time::OffsetDateTime;
use undertone_api::signed::SiteHold;

use super::*;
use crate::daemon::part::{Look, look};
use crate::fixture::JOB;
use crate::gateway::Work;
use crate::site::datasets::note_registered;
use crate::site::holds::{self, HoldOrigin};
use crate::site::jobs::{self, DecisionOrigin};

fn manual() -> String {
    TEMPLATE.replace("approval = \"steward\"", "approval = \"manual\"")
}

fn said(manifest: &Signed, hold: bool) -> SiteHold {
    let reason = if hold { "a fire drill" } else { "" }.to_owned();
    SiteHold { manifest: manifest.digest(), job: JOB, dataset: OURS, hold, reason, at: OffsetDateTime::UNIX_EPOCH }
}

fn work(signed: &Signed) -> Work {
    Work {
        manifest: signed.clone(),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward, says the server".to_owned()),
        approval: None,
    }
}

fn known(place: &Place) -> Arc<Site> {
    let site = place.site();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

fn told(server: &Running, place: &Place) -> Vec<SiteHold> {
    let key = SiteKey::load(&place.folder().key()).expect("it is there").public();
    let state = server.state.lock().expect("nobody panicked");
    state.holds.iter().map(|signed| signed.open(&key).expect("the site signed it")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_held_at_the_terminal_waits_and_nothing_of_it_is_paid() {
    let server = start(false).await;
    let place = Place::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"server\""));
    let site = known(&place);
    let manifest = honest(spec(), Visibility::Private);
    let signed = sign(&manifest);
    assert!(matches!(look(&site, &work(&signed), JOB).expect("the disk works"), Look::Go(_)));
    let mut exchange = exchange(&site, &manifest, Visibility::Private);
    holds::record(&site.store, &said(&signed, true), HoldOrigin::Terminal).expect("it is open");
    assert!(matches!(look(&site, &work(&signed), JOB).expect("the disk works"), Look::Waits(_)));
    let before = site.ledger.books().expect("it is open").entries.sequence;
    let refused = exchange.clear(RoundKey::new("private", 1)).map(drop).expect_err("it is held");
    assert!(matches!(&refused, RunError::Stopped(reason) if reason.to_string().contains("a fire drill")), "{refused}");
    assert_eq!(site.ledger.books().expect("it is open").entries.sequence, before, "nothing was paid");
    holds::record(&site.store, &said(&signed, false), HoldOrigin::Terminal).expect("it is open");
    assert!(matches!(look(&site, &work(&signed), JOB).expect("the disk works"), Look::Go(_)));
    exchange.clear(RoundKey::new("private", 1)).map(drop).expect("it goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vector_that_was_paid_for_waits_on_disk_while_its_job_is_held() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = known(&place);
    let manifest = open_job();
    let signed = sign(&manifest);
    let mut exchange = exchange(&site, &manifest, Visibility::Open);
    let state = Arc::clone(&server.state);
    beside(move || {
        let clearance = exchange.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0, 2.0], clearance).expect("it was published");
        holds::record(&site.store, &said(&signed, true), HoldOrigin::Terminal).expect("it is open");
        let refused = exchange.send_vector(RoundKey::new("open", 1), vector).expect_err("it is held");
        assert!(
            matches!(&refused, RunError::Stopped(reason) if reason.to_string().contains("a fire drill")),
            "{refused}"
        );
        assert!(state.lock().expect("nobody panicked").vectors.is_empty(), "nothing left");
        assert_eq!(exchange.round_progress(RoundKey::new("open", 1)).expect("the disk works"), RoundProgress::Stored);
        holds::record(&site.store, &said(&signed, false), HoldOrigin::Terminal).expect("it is open");
        exchange.resend_vector(RoundKey::new("open", 1)).expect("it goes on");
        assert_eq!(state.lock().expect("nobody panicked").vectors.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_waits_for_its_steward_has_the_deadlines_stopped_until_there_is_an_answer() {
    let server = start(false).await;
    let place = Place::new(&server, &manual());
    let signed = sign(&honest(spec(), Visibility::Private));
    offer(
        &server,
        Offer::Work(v1::Work {
            manifest: Some(signed.clone().into()),
            dataset_id: OURS.to_string(),
            lease: "lease".to_owned(),
            lease_seconds: 60,
            steward_approved: true,
            steward: "a steward, says the server".to_owned(),
            approval: String::new(),
        }),
    );
    run_until(&place, &server, |state| !state.holds.is_empty()).await;
    let first = told(&server, &place)[0].clone();
    assert_eq!((first.hold, &first.manifest, first.job), (true, &signed.digest(), JOB));
    assert!(first.reason.contains("steward"), "{}", first.reason);

    let site = place.site();
    site.find_datasets().expect("the folder can be read");
    let yes = SiteDecision {
        manifest: signed.digest(),
        job: JOB,
        dataset: OURS,
        approve: true,
        reason: String::new(),
        at: OffsetDateTime::UNIX_EPOCH,
    };
    jobs::decide(&site.store, &yes, DecisionOrigin::Terminal).expect("it is open");
    assert!(matches!(look(&site, &work(&signed), JOB).expect("the disk works"), Look::Go(_)));
    drop(site);
    run_until(&place, &server, |state| state.holds.len() > 1).await;
    assert!(!told(&server, &place).last().expect("it was told").hold, "the others' deadlines run again");
}
