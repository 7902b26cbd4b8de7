//! Log events of a site about its part: those that its policy allows, in fixed words, without delaying the run.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::job::log::{Fault, Phase, SiteEvent};
use undertone_proto::v1;

use super::{Place, beside, honest, sign};
use crate::daemon::Site;
use crate::daemon::lease::Lease;
use crate::daemon::log::PartLog;
use crate::fixture::spec;
use crate::gateway::fake::{Running, start};
use crate::site::policy::TEMPLATE;

fn log_of(site: &Arc<Site>) -> PartLog {
    let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
    PartLog::of(site, &lease, &sign(&honest(spec(), Visibility::Private)))
}

fn logged(server: &Running) -> Vec<SiteEvent> {
    let state = server.state.lock().expect("nobody panicked");
    state.logged.iter().map(|event| SiteEvent::try_from(*event).expect("it is known")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_says_where_it_is_and_what_was_not_taken_is_said_again() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    // The place is kept alive: without its folder there is no policy, and no event is allowed.
    let (site, _place) = beside(move || (place.site(), place)).await;
    let log = log_of(&site);
    server.state.lock().expect("nobody panicked").hides = true;
    log.phase(Phase::Begun);
    log.round("private", |series| SiteEvent::Sent { series, round: 1, repeated: false });
    log.round("a series that the job does not have", |series| SiteEvent::Received { series, round: 1 });
    log.last_words().await;
    assert_eq!(logged(&server), []);
    server.state.lock().expect("nobody panicked").hides = false;
    log.fault(Fault::DiskFull);
    log.last_words().await;
    let said = [
        SiteEvent::Phase { phase: Phase::Begun },
        SiteEvent::Sent { series: 0, round: 1, repeated: false },
        SiteEvent::Fault { fault: Fault::DiskFull },
    ];
    assert_eq!(logged(&server), said);
    log.last_words().await;
    assert_eq!(logged(&server), said, "what was taken is not said again");
    let numbers: Vec<u64> = server
        .state
        .lock()
        .expect("nobody panicked")
        .logged
        .iter()
        .map(|event: &v1::LogEvent| event.sequence)
        .collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_whose_policy_says_none_says_nothing() {
    let server = start(false).await;
    let place = Place::new(&server, &TEMPLATE.replace("logs = \"states\"", "logs = \"none\""));
    let (site, folder) = beside(move || (place.site(), place)).await;
    let log = log_of(&site);
    log.phase(Phase::Begun);
    log.last_words().await;
    assert_eq!(logged(&server), []);
    // The file is read again for each event, and an unreadable one allows none.
    std::fs::write(folder.folder().policy(), "[jobs]\nlogs = \"everything\"\n").expect("the folder is writable");
    log.phase(Phase::Begun);
    std::fs::write(folder.folder().policy(), TEMPLATE).expect("the folder is writable");
    log.phase(Phase::Done);
    log.last_words().await;
    assert_eq!(logged(&server), [SiteEvent::Phase { phase: Phase::Done }]);
}
