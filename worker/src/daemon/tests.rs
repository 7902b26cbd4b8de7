//! Tests of the daemon against a server on the real wire.

#[cfg(unix)]
mod audit;
mod batch;
mod consent;
mod departure;
mod dishonest_server;
#[cfg(unix)]
mod fault;
mod hold;
mod log;
mod log_events;
mod maintenance;
#[cfg(unix)]
mod masked;
#[cfg(unix)]
mod pacing;
#[cfg(unix)]
mod pool;
#[cfg(unix)]
mod rollback;
mod shutdown;
mod standing;
mod submission;
mod terms;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::job::Spec;
use undertone_api::signed::{Manifest, Signed, SiteDecision};
use undertone_proto::v1;
use undertone_proto::v1::next_offer_reply::Offer;

use super::Site;
use super::exchange::SiteExchange;
use super::lease::Lease;
use crate::config::{Config, ServerEndpoint};
use crate::dp::release::Outgoing;
use crate::fixture::{LINEAGE, ORGANIZATION, OURS, WORKER, dp_sgd, local, manifest, rounds, server_key, spec};
use crate::gateway::fake::{FakeServer, FakeState, start};
use crate::run::{Artifacts as _, Averaging as _, RoundKey, RoundProgress, RunContext as _, RunError};
use crate::site::admission::{ExaminedManifest, examine};
use crate::site::clearance::Clearance;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::policy::TEMPLATE;
use crate::site::store::{Store, StoreError};

const OPEN: &str = "\n[datasets.\"ward-7\"]\nvisibility = \"open\"\n";

/// A site that is enrolled at `server` and holds `ward-7` under the lineage of the fixtures.
struct TestSite {
    dir: tempfile::TempDir,
    config: Config,
}

impl TestSite {
    fn new(server: &FakeServer, policy: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let key = SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
        server.state.lock().expect("no test panicked").public_key = key.public_hex();
        std::fs::write(folder.policy(), policy).expect("the folder is writable");
        let config = Config {
            server: ServerEndpoint::new(&server.address, None).expect("it is on loopback"),
            server_key: server_key().verifying_key(),
            worker: WORKER,
            worker_name: "north".to_owned(),
            organization: ORGANIZATION,
            organization_name: "North Hospital".to_owned(),
            concurrent_runs: 1,
            rotate_key_days: 0,
            anchor: None,
            compute: crate::dp::device::Compute::default(),
            queries: crate::config::queries::Queries::default(),
            transcription: crate::config::transcription::TranscriptionSettings::default(),
            programs: crate::speech::sandbox::Programs::default(),
        };
        config.store(&folder).expect("the folder is writable");
        let place = Self { dir, config };
        place.write_dataset();
        place
    }

    fn folder(&self) -> Folder {
        Folder::new(self.dir.path())
    }

    /// Opens the site. The time of its release clocks advances by waits.
    fn open(&self) -> Arc<Site> {
        let site = Site::open(self.folder(), &self.config, crate::site::clock::system());
        let mut site = site.expect("no other process has it");
        site.timeline = Arc::new(super::release_clock::fake::FakeTimeline::default());
        Arc::new(site)
    }

    /// Writes the dataset's description, which is all that the daemon reads; its lineage is the fixtures'.
    fn write_dataset(&self) {
        let folder = self.folder().dataset("ward-7").expect("a good name");
        std::fs::create_dir_all(&folder).expect("the folder is writable");
        let meta = crate::speech::dataset::Meta {
            format: crate::speech::dataset::layout::VERSION,
            name: "ward-7".to_owned(),
            inputs: 13,
            classes: 40,
            utterances: 480,
            speakers: 48,
            frames: 480,
            train: crate::speech::dataset::SplitCounts { utterances: 480, speakers: 48, frames: 480, users: 0 },
            test: crate::speech::dataset::SplitCounts::default(),
            sample_rate: 16_000,
            features: String::new(),
            treatment: None,
            labels: String::new(),
            unit_column: None,
            units: undertone_api::dataset::usual_units(),
            preparation: Some(crate::speech::dataset::PreparationRecord::default()),
            created: String::new(),
            digest: String::new(),
        };
        let text = serde_json::to_string(&meta).expect("it has a JSON form");
        std::fs::write(folder.join("meta.json"), text).expect("the folder is writable");
        let store = Store::create(&self.folder().ledger()).expect("the folder is writable");
        store
            .write_in_test(|tx| {
                tx.execute("INSERT INTO lineage (name, lineage) VALUES ('ward-7', ?1)", [LINEAGE.to_string()])
                    .map(|_| ())
                    .map_err(|error| StoreError::Row(error.to_string()))
            })
            .expect("it is empty");
    }
}

fn sign(manifest: &Manifest) -> Signed {
    Signed::new(manifest, &server_key()).expect("it has a JSON form")
}

fn honest_manifest(spec: Spec, visibility: Visibility) -> Manifest {
    let charge = spec.cost(&local(visibility).to_dataset(OURS, ORGANIZATION, WORKER));
    manifest(spec, charge)
}

/// Makes a job with an open series that the site's policy allows.
fn make_open_job() -> Manifest {
    let mut spec = dp_sgd();
    spec.open = Some(rounds());
    honest_manifest(Spec::DpSgd(spec), Visibility::Open)
}

fn open_exchange(site: &Arc<Site>, manifest: &Manifest, visibility: Visibility) -> SiteExchange {
    let lease = Lease::new("lease".to_owned(), CancellationToken::new());
    open_leased_exchange(&Arc::new(lease), site, manifest, visibility)
}

fn open_leased_exchange(
    lease: &Arc<Lease>,
    site: &Arc<Site>,
    manifest: &Manifest,
    visibility: Visibility,
) -> SiteExchange {
    let datasets = [local(visibility)];
    let examined: ExaminedManifest =
        examine(&sign(manifest), OURS, &site.identity, &datasets, (site.clock)()).expect("it is honest");
    if let Some(under) = examined.release_context().filter(|_| visibility == Visibility::Private) {
        site.ledger.reserve(&under, &crate::fixture::limit(8.0)).expect("there is room");
    }
    let handle = tokio::runtime::Handle::current();
    SiteExchange::new(handle, Arc::clone(site), Arc::clone(lease), examined).expect("the folder is writable")
}

/// Runs blocking code as the daemon does: on a separate thread, concurrent with the runtime.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_release_is_resent_after_a_crash_without_charge() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let mut first = open_exchange(&site, &make_open_job(), Visibility::Open);
    run_blocking(move || {
        assert_eq!(first.round_progress(RoundKey::new("open", 1)).expect("the disk works"), RoundProgress::Untouched);
        let clearance = first.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0, 2.0], clearance).expect("it was published");
        first.send_vector(RoundKey::new("open", 1), vector).expect("the server takes it");
        assert_eq!(first.round_progress(RoundKey::new("open", 1)).expect("the disk works"), RoundProgress::Accepted);
        assert!(matches!(first.clear(RoundKey::new("open", 1)), Err(RunError::Failed(_))), "it was released");
        // The second round is paid and stored, and the process dies before it is sent.
        let clearance = first.clear(RoundKey::new("open", 2)).expect("the policy says open");
        let Clearance::Granted(_) = &clearance else { panic!("open data are receipted") };
        let vector = Outgoing::exact(vec![3.0, 4.0], clearance).expect("it was published");
        first.pay_unsent("open", 2, &vector).expect("the disk has room");
    })
    .await;
    drop(site);
    let site = place.open();
    let mut second = open_exchange(&site, &make_open_job(), Visibility::Open);
    run_blocking(move || {
        assert_eq!(second.round_progress(RoundKey::new("open", 2)).expect("the disk works"), RoundProgress::Stored);
        second.resend_vector(RoundKey::new("open", 2)).expect("the server takes it");
        assert_eq!(second.round_progress(RoundKey::new("open", 2)).expect("the disk works"), RoundProgress::Accepted);
    })
    .await;
    let state = server.state.lock().expect("no test panicked");
    let bits: Vec<u8> = [3.0_f32, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(state.vectors.get(&("open".to_owned(), 2)), Some(&bits));
    let payments: Vec<_> =
        state.receipts.iter().map(|receipt| (receipt.sequence, receipt.round, receipt.attempt)).collect();
    assert_eq!(payments, [(1, 1, 1), (2, 2, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleared_release_without_bytes_costs_nothing() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let mut first = open_exchange(&site, &make_open_job(), Visibility::Open);
    run_blocking(move || drop(first.clear(RoundKey::new("open", 1)).expect("the policy says open"))).await;
    drop(site);
    let site = place.open();
    let mut second = open_exchange(&site, &make_open_job(), Visibility::Open);
    run_blocking(move || {
        assert_eq!(second.round_progress(RoundKey::new("open", 1)).expect("the disk works"), RoundProgress::Untouched);
        let clearance = second.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0], clearance).expect("it was published");
        second.send_vector(RoundKey::new("open", 1), vector).expect("the server takes it");
    })
    .await;
    let state = server.state.lock().expect("no test panicked");
    let payments: Vec<_> = state.receipts.iter().map(|receipt| (receipt.round, receipt.attempt)).collect();
    assert_eq!(payments, [(1, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn round_closed_during_absence_is_known_before_payment() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let mut exchange = open_exchange(&site, &make_open_job(), Visibility::Open);
    let bytes: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    server.state.lock().expect("no test panicked").vectors.insert(("open".to_owned(), 1), bytes);
    let state = Arc::clone(&server.state);
    run_blocking(move || {
        assert!(exchange.is_closed(RoundKey::new("open", 1)).expect("the server answers"));
        // The average came with the answer and is not requested again.
        state.lock().expect("no test panicked").vectors.clear();
        assert_eq!(exchange.fetch_average(RoundKey::new("open", 1)).expect("it is here").mean, [0.5, -2.0]);
        assert!(!exchange.is_closed(RoundKey::new("open", 2)).expect("the server answers"));
    })
    .await;
    assert!(site.ledger.books().expect("it is open").accounts.is_empty(), "nothing was paid");
    assert!(server.state.lock().expect("no test panicked").receipts.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn private_part_sends_no_figures_files_or_foreign_rounds() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let site = place.open();
    let mut exchange = open_exchange(&site, &honest_manifest(spec(), Visibility::Private), Visibility::Private);
    run_blocking(move || {
        assert!(matches!(exchange.put_file("model", vec![1]), Err(RunError::Refused(_))));
        for (series, round) in [("private", 0), ("private", 11), ("open", 1), ("other", 1)] {
            assert!(
                matches!(exchange.clear(RoundKey::new(series, round)), Err(RunError::Refused(_))),
                "{series}/{round}"
            );
        }
        let Ok(Clearance::Granted(grant)) = exchange.clear(RoundKey::new("private", 1)) else {
            panic!("it is reserved")
        };
        assert_eq!(Some(grant.event()), exchange.participant().charge.as_ref().map(|charge| &charge.event));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vector_leaves_only_for_its_cleared_round() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let mut exchange = open_exchange(&site, &make_open_job(), Visibility::Open);
    run_blocking(move || {
        let clearance = exchange.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0], clearance).expect("it was published");
        assert!(matches!(exchange.send_vector(RoundKey::new("open", 2), vector), Err(RunError::Refused(_))));
    })
    .await;
    assert!(server.state.lock().expect("no test panicked").vectors.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_that_closes_a_dataset_ends_its_releases() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let mut exchange = open_exchange(&site, &make_open_job(), Visibility::Open);
    std::fs::write(place.folder().policy(), TEMPLATE).expect("the folder is writable");
    run_blocking(move || assert!(matches!(exchange.clear(RoundKey::new("open", 1)), Err(RunError::Refused(_))))).await;
}

/// A running daemon.
struct TestDaemon {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), super::DaemonError>>,
}

impl TestDaemon {
    fn start(place: &TestSite) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let folder = place.dir.path().to_owned();
            let stop = stop.clone();
            async move { super::run(&folder, stop).await }
        });
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("it does not panic").expect("it ends well");
    }
}

/// Waits until the server's state satisfies `until`.
async fn wait_for_state(server: &FakeServer, until: impl Fn(&FakeState) -> bool) {
    let wait = async {
        while !until(&server.state.lock().expect("no test panicked")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), wait).await.expect("it happens");
}

/// Runs the daemon until the server's state satisfies `until`.
async fn run_until(place: &TestSite, server: &FakeServer, until: impl Fn(&FakeState) -> bool) {
    let daemon = TestDaemon::start(place);
    wait_for_state(server, until).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn site_asks_about_the_log_after_a_lost_connection() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    offer(&server, Offer::Nothing(v1::Nothing {}));
    let daemon = TestDaemon::start(&place);
    // From here on the daemon waits for offers.
    wait_for_state(&server, |state| state.offers.is_empty()).await;
    let requests = {
        let mut state = server.state.lock().expect("no test panicked");
        state.outage = 3;
        state.log_requests
    };
    assert!(requests > 0, "it asks before its first offer");
    wait_for_state(&server, |state| state.outage == 0 && state.log_requests > requests).await;
    daemon.stop().await;
}

fn offer(server: &FakeServer, offer: Offer) {
    server.state.lock().expect("no test panicked").offers.push(offer);
}

fn first_decision(server: &FakeServer, place: &TestSite) -> SiteDecision {
    let key = SiteKey::load(&place.folder().key()).expect("it is there").public();
    let state = server.state.lock().expect("no test panicked");
    state.decisions[0].open(&key).expect("the site signed it")
}

#[tokio::test(flavor = "multi_thread")]
async fn automatic_site_signs_its_approval() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"automatic\""));
    let signed = sign(&honest_manifest(spec(), Visibility::Private));
    let proposal = v1::Proposal { manifest: Some(signed.clone().into()), dataset_id: OURS.to_string() };
    offer(&server, Offer::Proposal(proposal));
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let decision = first_decision(&server, &place);
    assert_eq!((decision.approve, decision.manifest), (true, signed.digest()));
}

#[tokio::test(flavor = "multi_thread")]
async fn job_over_budget_gets_a_signed_refusal() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let mut costly = dp_sgd();
    costly.private.iter_mut().for_each(|private| private.rounds = 10_000);
    let signed = sign(&honest_manifest(Spec::DpSgd(costly), Visibility::Private));
    offer(&server, Offer::Proposal(v1::Proposal { manifest: Some(signed.into()), dataset_id: OURS.to_string() }));
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let decision = first_decision(&server, &place);
    assert!(!decision.approve && decision.reason.contains("epsilon of 4 per job"), "{}", decision.reason);
}

/// Makes an offer of the fixtures' job without an approval.
fn make_unapproved_offer() -> Offer {
    Offer::Work(v1::Work {
        manifest: Some(sign(&honest_manifest(spec(), Visibility::Private)).into()),
        dataset_id: OURS.to_string(),
        lease: "lease".to_owned(),
        lease_seconds: 60,
        steward_approved: false,
        steward: String::new(),
        approval: String::new(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn unapproved_work_is_refused_without_reservation() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    offer(&server, make_unapproved_offer());
    run_until(&place, &server, |state| !state.finished.is_empty()).await;
    assert!(!first_decision(&server, &place).approve);
    let site = place.open();
    assert!(site.ledger.books().expect("it is open").accounts.is_empty());
    let state = server.state.lock().expect("no test panicked");
    assert!(matches!(state.finished[0].outcome, Some(v1::finish_request::Outcome::GaveUp(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_part_is_reported_before_the_offer_wait_ends() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    server.state.lock().expect("no test panicked").wait = Some(std::time::Duration::from_mins(2));
    offer(&server, make_unapproved_offer());
    // The call still names the lease, and its wait is longer than this test's limit.
    run_until(&place, &server, |state| !state.finished.is_empty() && state.leases.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_rejected_by_a_short_pause_is_repeated() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
    let mut exchange = open_leased_exchange(&lease, &site, &make_open_job(), Visibility::Open);
    {
        let mut state = server.state.lock().expect("no test panicked");
        let bytes: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        state.vectors.insert(("open".to_owned(), 1), bytes);
        state.paused = 2;
    }
    let renewal = tokio::spawn({
        let lease = Arc::clone(&lease);
        let site = Arc::clone(&site);
        async move { lease.keep_alive(&site.gateway, std::time::Duration::from_mins(1)).await }
    });
    let answer = tokio::spawn(run_blocking(move || {
        exchange.fetch_average(RoundKey::new("open", 1)).map(|average| average.mean)
    }));
    let wait_for_answer = async {
        while !answer.is_finished() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let is_in_time = tokio::time::timeout(std::time::Duration::from_mins(1), wait_for_answer).await.is_ok();
    let lease_end = lease.end().cloned();
    // The call ends with its lease, so that the assertions cannot hang.
    lease.stop.cancel();
    let mean = answer.await.expect("it does not panic");
    renewal.await.expect("it does not panic");
    assert!(is_in_time && lease_end.is_none(), "it still waits, or its lease is over: {lease_end:?}");
    assert_eq!(mean.expect("the job goes on"), [0.5, -2.0]);
}
