//! Tests of the daemon against a server on the real wire.

#[cfg(unix)]
mod audit;
mod batch;
mod consent;
mod farewell;
#[cfg(unix)]
mod fault;
mod hold;
mod keeping;
mod letter;
mod liar;
mod log;
#[cfg(unix)]
mod pacing;
#[cfg(unix)]
mod pool;
#[cfg(unix)]
mod rollback;
mod said;
mod standing;

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
use crate::config::{Config, Server};
use crate::dp::release::Outgoing;
use crate::fixture::{LINEAGE, ORGANIZATION, OURS, WORKER, dp_sgd, local, manifest, rounds, server_key, spec};
use crate::gateway::fake::{Running, State, start};
use crate::run::{Artifacts as _, Averaging as _, RoundKey, RoundProgress, RunContext as _, RunError};
use crate::site::admission::{ExaminedManifest, examine};
use crate::site::clearance::Clearance;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::policy::TEMPLATE;
use crate::site::store::{Store, StoreError};

const OPEN: &str = "\n[datasets.\"ward-7\"]\nvisibility = \"open\"\n";

/// A site that is enrolled at `server` and holds `ward-7` under the lineage of the fixtures.
struct Place {
    dir: tempfile::TempDir,
    config: Config,
}

impl Place {
    fn new(server: &Running, policy: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let key = SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
        server.state.lock().expect("nobody panicked").public_key = key.public_hex();
        std::fs::write(folder.policy(), policy).expect("the folder is writable");
        let config = Config {
            server: Server::new(&server.address, None).expect("it is on loopback"),
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
            transcription: crate::config::transcription::Transcription::default(),
            programs: crate::speech::sandbox::Programs::default(),
        };
        config.store(&folder).expect("the folder is writable");
        let place = Self { dir, config };
        place.hold_data();
        place
    }

    fn folder(&self) -> Folder {
        Folder::new(self.dir.path())
    }

    /// Opens the site. The time of its release clocks advances by waits.
    fn site(&self) -> Arc<Site> {
        let site = Site::open(self.folder(), &self.config, crate::site::clock::system());
        let mut site = site.expect("nobody else has it");
        site.timeline = Arc::new(super::release_clock::fake::FakeTimeline::default());
        Arc::new(site)
    }

    /// Writes the dataset's description, which is all that the daemon reads; its lineage is the fixtures'.
    fn hold_data(&self) {
        let at = self.folder().dataset("ward-7").expect("a good name");
        std::fs::create_dir_all(&at).expect("the folder is writable");
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
        std::fs::write(at.join("meta.json"), text).expect("the folder is writable");
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

fn honest(spec: Spec, visibility: Visibility) -> Manifest {
    let charge = spec.cost(&local(visibility).to_dataset(OURS, ORGANIZATION, WORKER));
    manifest(spec, charge)
}

/// Makes a job with an open series that the site's policy allows.
fn open_job() -> Manifest {
    let mut open = dp_sgd();
    open.open = Some(rounds());
    honest(Spec::DpSgd(open), Visibility::Open)
}

fn exchange(site: &Arc<Site>, manifest: &Manifest, visibility: Visibility) -> SiteExchange {
    let lease = Lease::new("lease".to_owned(), CancellationToken::new());
    exchange_under(&Arc::new(lease), site, manifest, visibility)
}

fn exchange_under(lease: &Arc<Lease>, site: &Arc<Site>, manifest: &Manifest, visibility: Visibility) -> SiteExchange {
    let known = [local(visibility)];
    let examined: ExaminedManifest =
        examine(&sign(manifest), OURS, &site.identity, &known, (site.clock)()).expect("it is honest");
    if let Some(under) = examined.release_context().filter(|_| visibility == Visibility::Private) {
        site.ledger.reserve(&under, &crate::fixture::limit(8.0)).expect("there is room");
    }
    let handle = tokio::runtime::Handle::current();
    SiteExchange::new(handle, Arc::clone(site), Arc::clone(lease), examined).expect("the folder is writable")
}

/// Runs blocking code as the daemon does: on a separate thread, concurrent with the runtime.
async fn beside<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(run).await.expect("it does not panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stored_before_a_crash_is_sent_once_more_without_a_new_charge() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let mut first = exchange(&site, &open_job(), Visibility::Open);
    beside(move || {
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
        first.pay_only("open", 2, &vector).expect("the disk has room");
    })
    .await;
    drop(site);
    let site = place.site();
    let mut second = exchange(&site, &open_job(), Visibility::Open);
    beside(move || {
        assert_eq!(second.round_progress(RoundKey::new("open", 2)).expect("the disk works"), RoundProgress::Stored);
        second.resend_vector(RoundKey::new("open", 2)).expect("the server takes it");
        assert_eq!(second.round_progress(RoundKey::new("open", 2)).expect("the disk works"), RoundProgress::Accepted);
    })
    .await;
    let state = server.state.lock().expect("nobody panicked");
    let bits: Vec<u8> = [3.0_f32, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(state.vectors.get(&("open".to_owned(), 2)), Some(&bits));
    let paid: Vec<_> =
        state.receipts.iter().map(|receipt| (receipt.sequence, receipt.round, receipt.attempt)).collect();
    assert_eq!(paid, [(1, 1, 1), (2, 2, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn release_that_was_cleared_and_never_made_costs_nothing() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let mut first = exchange(&site, &open_job(), Visibility::Open);
    beside(move || drop(first.clear(RoundKey::new("open", 1)).expect("the policy says open"))).await;
    drop(site);
    let site = place.site();
    let mut second = exchange(&site, &open_job(), Visibility::Open);
    beside(move || {
        assert_eq!(second.round_progress(RoundKey::new("open", 1)).expect("the disk works"), RoundProgress::Untouched);
        let clearance = second.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0], clearance).expect("it was published");
        second.send_vector(RoundKey::new("open", 1), vector).expect("the server takes it");
    })
    .await;
    let state = server.state.lock().expect("nobody panicked");
    let paid: Vec<_> = state.receipts.iter().map(|receipt| (receipt.round, receipt.attempt)).collect();
    assert_eq!(paid, [(1, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_closed_in_a_site_s_absence_is_known_before_anything_is_paid() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let mut exchange = exchange(&site, &open_job(), Visibility::Open);
    let bytes: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    server.state.lock().expect("nobody panicked").vectors.insert(("open".to_owned(), 1), bytes);
    let state = Arc::clone(&server.state);
    beside(move || {
        assert!(exchange.is_closed(RoundKey::new("open", 1)).expect("the server answers"));
        // The average came with the answer and is not requested again.
        state.lock().expect("nobody panicked").vectors.clear();
        assert_eq!(exchange.fetch_average(RoundKey::new("open", 1)).expect("it is here").mean, [0.5, -2.0]);
        assert!(!exchange.is_closed(RoundKey::new("open", 2)).expect("the server answers"));
    })
    .await;
    assert!(site.ledger.books().expect("it is open").accounts.is_empty(), "nothing was paid");
    assert!(server.state.lock().expect("nobody panicked").receipts.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_part_may_send_neither_figures_nor_files_nor_strange_rounds() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    let site = place.site();
    let mut exchange = exchange(&site, &honest(spec(), Visibility::Private), Visibility::Private);
    beside(move || {
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
async fn a_vector_leaves_only_for_the_round_it_was_cleared_for() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let mut exchange = exchange(&site, &open_job(), Visibility::Open);
    beside(move || {
        let clearance = exchange.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0], clearance).expect("it was published");
        assert!(matches!(exchange.send_vector(RoundKey::new("open", 2), vector), Err(RunError::Refused(_))));
    })
    .await;
    assert!(server.state.lock().expect("nobody panicked").vectors.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_closes_a_dataset_ends_its_releases_at_once() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let mut exchange = exchange(&site, &open_job(), Visibility::Open);
    std::fs::write(place.folder().policy(), TEMPLATE).expect("the folder is writable");
    beside(move || assert!(matches!(exchange.clear(RoundKey::new("open", 1)), Err(RunError::Refused(_))))).await;
}

/// A running daemon.
struct TestDaemon {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), super::DaemonError>>,
}

impl TestDaemon {
    fn start(place: &Place) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (at, stop) = (place.dir.path().to_owned(), stop.clone());
            async move { super::run(&at, stop).await }
        });
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("it does not panic").expect("it ends well");
    }
}

/// Waits until the server's state satisfies `until`.
async fn wait_for_state(server: &Running, until: impl Fn(&State) -> bool) {
    let satisfied = async {
        while !until(&server.state.lock().expect("nobody panicked")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), satisfied).await.expect("it happens");
}

/// Runs the daemon until the server's state satisfies `until`.
async fn run_until(place: &Place, server: &Running, until: impl Fn(&State) -> bool) {
    let daemon = TestDaemon::start(place);
    wait_for_state(server, until).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn site_asks_about_the_log_after_a_lost_connection() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    offer(&server, Offer::Nothing(v1::Nothing {}));
    let daemon = TestDaemon::start(&place);
    // From here on the daemon waits for offers.
    wait_for_state(&server, |state| state.offers.is_empty()).await;
    let asked = {
        let mut state = server.state.lock().expect("nobody panicked");
        state.outage = 3;
        state.asked
    };
    assert!(asked > 0, "it asks before its first offer");
    wait_for_state(&server, |state| state.outage == 0 && state.asked > asked).await;
    daemon.stop().await;
}

fn offer(server: &Running, offer: Offer) {
    server.state.lock().expect("nobody panicked").offers.push(offer);
}

fn decided(server: &Running, place: &Place) -> SiteDecision {
    let key = SiteKey::load(&place.folder().key()).expect("it is there").public();
    let state = server.state.lock().expect("nobody panicked");
    state.decisions[0].open(&key).expect("the site signed it")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_automatic_site_signs_its_approval_of_what_its_policy_allows() {
    let server = start(false).await;
    let place = Place::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"automatic\""));
    let signed = sign(&honest(spec(), Visibility::Private));
    let proposal = v1::Proposal { manifest: Some(signed.clone().into()), dataset_id: OURS.to_string() };
    offer(&server, Offer::Proposal(proposal));
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let decision = decided(&server, &place);
    assert_eq!((decision.approve, decision.manifest), (true, signed.digest()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_signs_its_refusal_of_a_job_over_its_budget() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    let mut dear = dp_sgd();
    dear.private.iter_mut().for_each(|private| private.rounds = 10_000);
    let signed = sign(&honest(Spec::DpSgd(dear), Visibility::Private));
    offer(&server, Offer::Proposal(v1::Proposal { manifest: Some(signed.into()), dataset_id: OURS.to_string() }));
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let decision = decided(&server, &place);
    assert!(!decision.approve && decision.reason.contains("epsilon of 4 per job"), "{}", decision.reason);
}

/// Offers the fixtures' job without an approval.
fn unapproved() -> Offer {
    Offer::Work(v1::Work {
        manifest: Some(sign(&honest(spec(), Visibility::Private)).into()),
        dataset_id: OURS.to_string(),
        lease: "lease".to_owned(),
        lease_seconds: 60,
        steward_approved: false,
        steward: String::new(),
        approval: String::new(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_no_steward_approved_is_refused_and_nothing_is_reserved() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    offer(&server, unapproved());
    run_until(&place, &server, |state| !state.finished.is_empty()).await;
    assert!(!decided(&server, &place).approve);
    let site = place.site();
    assert!(site.ledger.books().expect("it is open").accounts.is_empty());
    let state = server.state.lock().expect("nobody panicked");
    assert!(matches!(state.finished[0].outcome, Some(v1::finish_request::Outcome::GaveUp(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_down_is_told_at_once_and_not_when_the_wait_for_an_offer_is_over() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    server.state.lock().expect("nobody panicked").wait = Some(std::time::Duration::from_mins(2));
    offer(&server, unapproved());
    // The call still names the lease, and its wait is longer than this test's limit.
    run_until(&place, &server, |state| !state.finished.is_empty() && state.leases.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_pause_of_a_moment_turned_away_is_made_again() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
    let mut exchange = exchange_under(&lease, &site, &open_job(), Visibility::Open);
    {
        let mut state = server.state.lock().expect("nobody panicked");
        let bytes: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        state.vectors.insert(("open".to_owned(), 1), bytes);
        state.paused = 2;
    }
    let keeping = tokio::spawn({
        let (lease, site) = (Arc::clone(&lease), Arc::clone(&site));
        async move { lease.keep(&site.gateway, std::time::Duration::from_mins(1)).await }
    });
    let answer =
        tokio::spawn(beside(move || exchange.fetch_average(RoundKey::new("open", 1)).map(|average| average.mean)));
    let answered = async {
        while !answer.is_finished() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(std::time::Duration::from_mins(1), answered).await.is_ok();
    let ended = lease.end().cloned();
    // The call ends with its lease, so that the assertions cannot hang.
    lease.stop.cancel();
    let mean = answer.await.expect("it does not panic");
    keeping.await.expect("it does not panic");
    assert!(in_time && ended.is_none(), "it still waits, or its lease is over: {ended:?}");
    assert_eq!(mean.expect("the job goes on"), [0.5, -2.0]);
}
