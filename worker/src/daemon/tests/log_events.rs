//! Log events of a site about its part: those that its policy allows, in fixed words, without delaying the run.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::job::log::{Fault, Phase, SiteEvent};
use undertone_proto::v1;

use super::{TestSite, honest_manifest, run_blocking, sign};
use crate::daemon::Site;
use crate::daemon::lease::Lease;
use crate::daemon::log::PartLog;
use crate::fixture::spec;
use crate::gateway::fake::{FakeServer, start};
use crate::site::policy::TEMPLATE;

fn open_log(site: &Arc<Site>) -> PartLog {
    let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
    PartLog::for_manifest(site, &lease, &sign(&honest_manifest(spec(), Visibility::Private)))
}

fn received_events(server: &FakeServer) -> Vec<SiteEvent> {
    let state = server.state.lock().expect("no test panicked");
    state.logged.iter().map(|event| SiteEvent::try_from(*event).expect("it is known")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_the_server_did_not_take_are_sent_again() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    // The place is kept alive: without its folder there is no policy, and no event is allowed.
    let (site, _place) = run_blocking(move || (place.open(), place)).await;
    let log = open_log(&site);
    server.state.lock().expect("no test panicked").hides = true;
    log.record_phase(Phase::Begun);
    log.record_round("private", |series| SiteEvent::Sent { series, round: 1, repeated: false });
    log.record_round("a series that the job does not have", |series| SiteEvent::Received { series, round: 1 });
    log.flush().await;
    assert_eq!(received_events(&server), []);
    server.state.lock().expect("no test panicked").hides = false;
    log.record_fault(Fault::DiskFull);
    log.flush().await;
    let expected = [
        SiteEvent::Phase { phase: Phase::Begun },
        SiteEvent::Sent { series: 0, round: 1, repeated: false },
        SiteEvent::Fault { fault: Fault::DiskFull },
    ];
    assert_eq!(received_events(&server), expected);
    log.flush().await;
    assert_eq!(received_events(&server), expected, "the server has each event once");
    let numbers: Vec<u64> = server
        .state
        .lock()
        .expect("no test panicked")
        .logged
        .iter()
        .map(|event: &v1::LogEvent| event.sequence)
        .collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_without_logs_sends_no_event() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("logs = \"states\"", "logs = \"none\""));
    let (site, place) = run_blocking(move || (place.open(), place)).await;
    let log = open_log(&site);
    log.record_phase(Phase::Begun);
    log.flush().await;
    assert_eq!(received_events(&server), []);
    // The file is read again for each event, and an unreadable one allows none.
    std::fs::write(place.folder().policy(), "[jobs]\nlogs = \"everything\"\n").expect("the folder is writable");
    log.record_phase(Phase::Begun);
    std::fs::write(place.folder().policy(), TEMPLATE).expect("the folder is writable");
    log.record_phase(Phase::Done);
    log.flush().await;
    assert_eq!(received_events(&server), [SiteEvent::Phase { phase: Phase::Done }]);
}
