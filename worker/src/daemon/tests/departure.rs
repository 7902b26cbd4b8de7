//! A site that leaves a job pays nothing more, settles in its own ledger, and tells the server.

use time::OffsetDateTime;
use undertone_api::signed::SiteDeparture;
use undertone_privacy::ledger::ReservationId;

use super::*;
use crate::daemon::{WorkExamination, close_part, examine_work};
use crate::fixture::JOB;
use crate::gateway::OfferedWork;
use crate::site::datasets::note_registered;
use crate::site::departures;
use crate::site::jobs::RunOutcome;

fn make_departure(manifest: &Signed) -> SiteDeparture {
    SiteDeparture {
        manifest: manifest.digest(),
        job: JOB,
        dataset: OURS,
        reason: "the study has ended".to_owned(),
        at: OffsetDateTime::UNIX_EPOCH,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn left_job_pays_nothing_and_returns_its_reservation() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"server\""));
    let site = place.open();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    let manifest = honest_manifest(spec(), Visibility::Private);
    let signed = sign(&manifest);
    let work = OfferedWork {
        manifest: signed.clone(),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward named by the server".to_owned()),
        approval: None,
    };
    let mut exchange = open_exchange(&site, &manifest, Visibility::Private);
    exchange.clear(RoundKey::new("private", 1)).map(drop).expect("it takes part");
    assert!(departures::record(&site.store, &make_departure(&signed)).expect("it is open"));
    let before = site.ledger.books().expect("it is open").entries.sequence;
    let error = exchange.clear(RoundKey::new("private", 2)).map(drop).expect_err("it has left");
    assert!(
        matches!(&error, RunError::Stopped(reason) if reason.to_string().contains("the study has ended")),
        "{error}"
    );
    assert_eq!(site.ledger.books().expect("it is open").entries.sequence, before, "nothing was paid");

    let WorkExamination::Ended(outcome) = examine_work(&site, &work, JOB).expect("the disk works") else {
        panic!("a site that has left does not come back");
    };
    assert!(matches!(&outcome, RunOutcome::Stopped { reason } if reason.contains("the study has ended")));
    close_part(&site, JOB, OURS, &outcome).expect("the disk works");
    let books = site.ledger.books().expect("it is open");
    let is_open = books.accounts.values().any(|book| {
        let id = ReservationId(JOB.0.as_u128());
        book.account.reservation(id).is_some_and(|reservation| !reservation.is_settled())
    });
    assert!(!is_open, "its own ledger has settled");
    assert!(books.entries.sequence > before, "the settlement is an entry");
    drop((exchange, site));
    run_until(&place, &server, |state| !state.departures.is_empty()).await;
    let key = SiteKey::load(&place.folder().key()).expect("it is there").public();
    let received: SiteDeparture =
        server.state.lock().expect("no test panicked").departures[0].open(&key).expect("the site signed it");
    assert_eq!(received, make_departure(&signed));
}
