//! A batch of sounds for recognizers: sealed, paid and countersigned before it leaves, and paid once in every case.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::job::transcription::{HISTOGRAM, Report, Spec as Transcription};
use undertone_api::job::{Report as AnyReport, Spec};
use undertone_api::signed::{JobLimits, Manifest};
use undertone_privacy::PrivacyUnit;

use super::fault::count_paid;
use super::{TestSite, run_blocking, sign};
use crate::daemon::Site;
use crate::daemon::acknowledge_end;
use crate::daemon::decisions::{ProposalVerdict, judge};
use crate::daemon::exchange::SiteExchange;
use crate::daemon::lease::Lease;
use crate::fixture::{JOB, ORGANIZATION, OURS, WORKER, limit, local_recordings, manifest};
use crate::gateway::fake::start;
use crate::run::{Outbound as _, RoundKey, RoundProgress, RunContext as _, RunError};
use crate::site::admission::examine;
use crate::site::clearance::{Clearance, PublicProof};
use crate::site::datasets::LocalDataset;
use crate::site::folder::write_durably;
use crate::site::policy::{TEMPLATE, most_cost};
use crate::speech::recordings::{Options, add};
use crate::speech::transcribe::outbound::{BatchDraft, BatchPermit, SealedSounds};
use crate::speech::transcribe::provider::settings::ProviderSettings;
use crate::speech::transcribe::wav;

/// Returns a policy that allows the transcription of recordings.
pub(super) fn policy() -> String {
    TEMPLATE.replace("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgd\", \"transcription\"]")
        + "\n[budget.words]\nepsilon = 8.0\ndelta = 1e-6\n"
}

pub(super) fn spec() -> Transcription {
    let spec = json!({
        "participant": { "dataset": OURS, "epsilon": 1.0, "delta": 1e-7, "distance": 10 },
        "providers": [{ "name": "one", "protocol": "deepgram" }],
        "vocabulary": { "from": "public", "words": ["medicine", "window"] },
    });
    serde_json::from_value(spec).expect("it is a spec")
}

/// Makes our dataset of recordings.
pub(super) fn recordings() -> LocalDataset {
    local_recordings(Visibility::Private, 3_600)
}

pub(super) fn job() -> Manifest {
    let spec = Spec::Transcription(spec());
    let dataset = recordings().to_dataset(OURS, ORGANIZATION, WORKER);
    let charge = spec.cost(&dataset);
    let mut manifest = manifest(spec, charge);
    manifest.participants.remove(0);
    manifest.participants[0].units = dataset.count(PrivacyUnit::Words).0;
    manifest.limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at));
    manifest
}

/// Opens the exchange of the admitted and reserved part, as one process does.
fn open_exchange(site: &Arc<Site>) -> SiteExchange {
    open_exchange_for(site, recordings())
}

fn open_exchange_for(site: &Arc<Site>, local: LocalDataset) -> SiteExchange {
    let datasets = [local];
    let examined = examine(&sign(&job()), OURS, &site.identity, &datasets, (site.clock)()).expect("it is honest");
    let under = examined.release_context().expect("it is charged");
    site.ledger.reserve(&under, &limit(8.0)).expect("there is room");
    let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
    let handle = tokio::runtime::Handle::current();
    SiteExchange::new(handle, Arc::clone(site), lease, examined).expect("the folder is writable")
}

/// Seals a batch of one sound with `samples` samples under a clearance.
fn seal(folder: &Path, samples: usize, clearance: Clearance) -> Arc<SealedSounds> {
    let mut draft = BatchDraft::begin(folder, vec![("one at nowhere".to_owned(), 1)]).expect("the disk has room");
    draft.add(0, 0, &wav::write(&vec![0.1; samples])).expect("it is empty");
    let event = spec().event().expect("it has noise");
    Arc::new(draft.seal(BatchPermit::new(clearance, &event).expect("it was paid")).expect("it is whole"))
}

fn clear(exchange: &mut SiteExchange) -> Clearance {
    exchange.clear(RoundKey::new(HISTOGRAM, 1)).expect("it is reserved")
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_is_recorded_first_and_no_other_leaves_for_its_payment() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let mut first = open_exchange(&site);
    let batch = run_blocking(move || {
        let batch = seal(&first.folder().join("out"), 800, clear(&mut first));
        assert_eq!(
            first.round_progress(RoundKey::new(HISTOGRAM, 1)).expect("the disk works"),
            RoundProgress::Untouched
        );
        first.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &batch, &[]).expect("it was cleared");
        assert_eq!(
            first.round_progress(RoundKey::new(HISTOGRAM, 1)).expect("the disk works"),
            RoundProgress::Lost,
            "nothing is made in its place"
        );
        assert!(matches!(first.clear(RoundKey::new(HISTOGRAM, 1)), Err(RunError::Refused(_))), "a job has one batch");
        batch
    })
    .await;
    let mut next = open_exchange(&site);
    run_blocking(move || {
        next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &batch, &[]).expect("the same bits, in a later process");
        let other = seal(&next.folder().join("other"), 801, Clearance::Public(PublicProof::in_test()));
        assert!(matches!(next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &other, &[]), Err(RunError::Refused(_))));
    })
    .await;
    assert_eq!(count_paid(&site), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_above_the_cost_limit_is_refused_without_payment() {
    let server = start(false).await;
    let mut place = TestSite::new(&server, &policy());
    let provider = json!({
        "name": "one", "protocol": "deepgram", "url": "https://one.example",
        "price": { "currency": "USD", "per_minute": "0.0077" },
    });
    place.config.transcription.providers = vec![serde_json::from_value(provider).expect("it is a provider")];
    let site = place.open();
    site.set_datasets(vec![recordings()]);
    // The policy is read again before each decision.
    let path = place.folder().policy();
    let limit = |amount: &str| {
        let line = format!("[jobs]\nmost_cost_per_job = {{ USD = \"{amount}\" }}\n");
        std::fs::write(&path, policy().replacen("[jobs]\n", &line, 1)).expect("the folder is writable");
    };
    let judge_job = || judge(&site, &sign(&job()), OURS).expect("the disk works");
    limit("0.01");
    let ProposalVerdict::Refused(reason) = judge_job() else { panic!("a cent is not enough") };
    assert!(reason.contains("`jobs.most_cost_per_job`"), "{reason}");
    limit("1000");
    if let ProposalVerdict::Refused(reason) = judge_job() {
        panic!("it is enough: {reason}");
    }
    let mut first = open_exchange(&site);
    limit("0.01");
    let mut first = run_blocking(move || {
        let Err(RunError::Refused(problem)) = first.clear(RoundKey::new(HISTOGRAM, 1)) else {
            panic!("a cent is not enough")
        };
        assert!(problem.to_string().contains("`jobs.most_cost_per_job`"), "{problem}");
        first
    })
    .await;
    assert_eq!(count_paid(&site), 0);
    limit("1000");
    run_blocking(move || drop(clear(&mut first))).await;
    assert_eq!(count_paid(&site), 0, "it may be made, and is not paid before");
}

#[tokio::test(flavor = "multi_thread")]
async fn grown_recordings_are_judged_by_their_current_length() {
    let server = start(false).await;
    let mut place = TestSite::new(&server, &policy());
    let provider = json!({
        "name": "one", "protocol": "deepgram", "url": "https://one.example",
        "price": { "currency": "USD", "per_minute": "0.0077" },
    });
    let providers: Vec<ProviderSettings> = vec![serde_json::from_value(provider).expect("it is a provider")];
    place.config.transcription.providers.clone_from(&providers);
    let site = place.open();
    let input = place.dir.path().join("in");
    let output = site.folder.datasets().join("ward-7");
    std::fs::create_dir(&input).expect("the disk has room");
    let write_recording = |seconds: usize| {
        std::fs::write(input.join("a.wav"), wav::write(&vec![0.25; 16_000 * seconds])).expect("the disk has room");
        let options = Options {
            input: input.clone(),
            output: output.clone(),
            name: "ward-7".to_owned(),
            replace: true,
            created: String::new(),
        };
        add(&options).expect("they are recordings");
    };
    write_recording(1);
    // The part was admitted with a registered length of one hour.
    let local = LocalDataset { folder: output.clone(), ..recordings() };
    let mut current = local.clone();
    (current.facts.records, current.facts.seconds) = (1, Some(1));
    let most = most_cost(&spec(), &current.to_dataset(OURS, ORGANIZATION, WORKER), &providers).expect("it has a price");
    let dollars = most[0].nanos / 1_000_000_000;
    let nanos = most[0].nanos % 1_000_000_000;
    let line = format!("[jobs]\nmost_cost_per_job = {{ USD = \"{dollars}.{nanos:09}\" }}\n");
    std::fs::write(place.folder().policy(), policy().replacen("[jobs]\n", &line, 1)).expect("the folder is writable");
    let mut first = open_exchange_for(&site, local);
    write_recording(100);
    let mut first = run_blocking(move || {
        let Err(RunError::Refused(problem)) = first.clear(RoundKey::new(HISTOGRAM, 1)) else {
            panic!("a hundred times as long")
        };
        assert!(problem.to_string().contains("`jobs.most_cost_per_job`"), "{problem}");
        first
    })
    .await;
    assert_eq!(count_paid(&site), 0);
    write_recording(1);
    run_blocking(move || drop(clear(&mut first))).await;
    assert_eq!(count_paid(&site), 0, "it may be made, and is not paid before");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_of_a_crashed_process_is_paid_when_it_leaves() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let mut first = open_exchange(&site);
    let batch = run_blocking(move || seal(&first.folder().join("out"), 800, clear(&mut first))).await;
    let mut next = open_exchange(&site);
    run_blocking(move || {
        let unpaid = seal(&next.folder().join("other"), 800, Clearance::Public(PublicProof::in_test()));
        assert!(
            matches!(next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &unpaid, &[]), Err(RunError::Refused(_))),
            "it is sealed as public"
        );
        next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &batch, &[]).expect("it is what the job reserved for");
    })
    .await;
    assert_eq!(count_paid(&site), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn private_recordings_report_the_plan_only() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let mut exchange = open_exchange(&site);
    run_blocking(move || {
        for (series, round) in [(HISTOGRAM, 0), (HISTOGRAM, 2), ("pool", 1)] {
            assert!(
                matches!(exchange.clear(RoundKey::new(series, round)), Err(RunError::Refused(_))),
                "{series}/{round}"
            );
        }
        let plan = Report::from_plan(&spec()).expect("it has noise");
        let more = plan.clone().with_outcome(undertone_api::job::transcription::TranscriptionOutcome::default());
        assert!(matches!(exchange.submit_report(AnyReport::Transcription(more)), Err(RunError::Refused(_))));
        let other = Report { words: plan.words + 1, ..plan.clone() };
        assert!(matches!(exchange.submit_report(AnyReport::Transcription(other)), Err(RunError::Refused(_))));
        exchange.submit_report(AnyReport::Transcription(plan)).expect("the plan is public");
    })
    .await;
    assert_eq!(count_paid(&site), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_of_a_run_are_removed_at_the_end_of_its_part() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let folder = site.folder.work(JOB, OURS);
    let sounds = folder.join("transcription/out/sounds-0");
    write_durably(&sounds, b"a voice").expect("the disk has room");
    acknowledge_end(&site, JOB, OURS, &[]).expect("the disk works");
    assert!(!folder.join("transcription").exists() && folder.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_policy_stops_releases_without_naming_its_path() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let mut exchange = open_exchange(&site);
    std::fs::write(site.folder.policy(), "kinds = [").expect("the folder is writable");
    let root = site.folder.root().display().to_string();
    run_blocking(move || {
        let Err(RunError::Refused(problem)) = exchange.clear(RoundKey::new(HISTOGRAM, 1)) else {
            panic!("nothing may leave")
        };
        let reason = problem.to_string();
        assert!(reason.contains("policy cannot be read") && !reason.contains(&root), "{reason}");
    })
    .await;
    assert_eq!(count_paid(&site), 0);
}
