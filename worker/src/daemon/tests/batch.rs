//! A batch of sounds for recognizers: sealed, paid and countersigned before it leaves, and paid once in every case.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::{DatasetContent, Visibility};
use undertone_api::job::transcription::{HISTOGRAM, Report, Spec as Transcription};
use undertone_api::job::{Report as AnyReport, Spec};
use undertone_api::signed::{JobLimits, Manifest};
use undertone_privacy::PrivacyUnit;

use super::fault::paid;
use super::{Place, beside, sign};
use crate::daemon::Site;
use crate::daemon::desk::{Verdict, judge};
use crate::daemon::exchange::SiteExchange;
use crate::daemon::lease::Lease;
use crate::daemon::part::end_is_told;
use crate::fixture::{JOB, ORGANIZATION, OURS, WORKER, limit, local, manifest};
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
        "participant": { "dataset": OURS, "epsilon": 1.0, "delta": 1e-7, "distance": 6 },
        "providers": [{ "name": "one", "protocol": "deepgram" }],
        "vocabulary": { "from": "public", "words": ["medicine", "window"] },
    });
    serde_json::from_value(spec).expect("it is a spec")
}

/// Makes our dataset of recordings.
pub(super) fn recordings() -> LocalDataset {
    LocalDataset {
        content: DatasetContent::Recordings,
        seconds: Some(3_600),
        units: vec![PrivacyUnit::Words],
        ..local(Visibility::Private)
    }
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
fn exchange(site: &Arc<Site>) -> SiteExchange {
    exchange_of(site, recordings())
}

fn exchange_of(site: &Arc<Site>, local: LocalDataset) -> SiteExchange {
    let known = [local];
    let examined = examine(&sign(&job()), OURS, &site.identity, &known, (site.clock)()).expect("it is honest");
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
async fn a_batch_is_noted_before_it_leaves_and_no_other_leaves_for_its_payment() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let mut first = exchange(&site);
    let batch = beside(move || {
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
    let mut next = exchange(&site);
    beside(move || {
        next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &batch, &[]).expect("the same bits, in a later life");
        let other = seal(&next.folder().join("other"), 801, Clearance::Public(PublicProof::in_test()));
        assert!(matches!(next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &other, &[]), Err(RunError::Refused(_))));
    })
    .await;
    assert_eq!(paid(&site), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_may_cost_more_than_the_site_allows_is_refused_and_not_paid() {
    let server = start(false).await;
    let mut place = Place::new(&server, &policy());
    let provider = json!({
        "name": "one", "protocol": "deepgram", "url": "https://one.example",
        "price": { "currency": "USD", "per_minute": "0.0077" },
    });
    place.config.transcription.providers = vec![serde_json::from_value(provider).expect("it is a provider")];
    let site = place.site();
    site.hold(vec![recordings()]);
    // The policy is read again before each decision.
    let path = place.folder().policy();
    let limit = |amount: &str| {
        let line = format!("[jobs]\nmost_cost_per_job = {{ USD = \"{amount}\" }}\n");
        std::fs::write(&path, policy().replacen("[jobs]\n", &line, 1)).expect("the folder is writable");
    };
    let judged = || judge(&site, &sign(&job()), OURS).expect("the disk works");
    limit("0.01");
    let Verdict::Refused(said) = judged() else { panic!("a cent is not enough") };
    assert!(said.contains("`jobs.most_cost_per_job`"), "{said}");
    limit("1000");
    if let Verdict::Refused(said) = judged() {
        panic!("it is enough: {said}");
    }
    let mut first = exchange(&site);
    limit("0.01");
    let mut first = beside(move || {
        let Err(RunError::Refused(problem)) = first.clear(RoundKey::new(HISTOGRAM, 1)) else {
            panic!("a cent is not enough")
        };
        assert!(problem.to_string().contains("`jobs.most_cost_per_job`"), "{problem}");
        first
    })
    .await;
    assert_eq!(paid(&site), 0);
    limit("1000");
    beside(move || drop(clear(&mut first))).await;
    assert_eq!(paid(&site), 0, "it may be made, and is not paid before");
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_that_grew_while_a_job_waited_are_judged_by_what_they_are_now() {
    let server = start(false).await;
    let mut place = Place::new(&server, &policy());
    let provider = json!({
        "name": "one", "protocol": "deepgram", "url": "https://one.example",
        "price": { "currency": "USD", "per_minute": "0.0077" },
    });
    let providers: Vec<ProviderSettings> = vec![serde_json::from_value(provider).expect("it is a provider")];
    place.config.transcription.providers.clone_from(&providers);
    let site = place.site();
    let (input, output) = (place.dir.path().join("in"), site.folder.datasets().join("ward-7"));
    std::fs::create_dir(&input).expect("the disk has room");
    let put = |seconds: usize| {
        std::fs::write(input.join("a.wav"), wav::write(&vec![0.25; 16_000 * seconds])).expect("the disk has room");
        let (input, output, name) = (input.clone(), output.clone(), "ward-7".to_owned());
        add(&Options { input, output, name, replace: true, created: String::new() }).expect("they are recordings");
    };
    put(1);
    // The part was admitted with a registered length of one hour.
    let local = LocalDataset { folder: output.clone(), ..recordings() };
    let now = LocalDataset { records: 1, seconds: Some(1), ..local.clone() };
    let most = most_cost(&spec(), &now.to_dataset(OURS, ORGANIZATION, WORKER), &providers).expect("it has a price");
    let (whole, part) = (most[0].nanos / 1_000_000_000, most[0].nanos % 1_000_000_000);
    let line = format!("[jobs]\nmost_cost_per_job = {{ USD = \"{whole}.{part:09}\" }}\n");
    std::fs::write(place.folder().policy(), policy().replacen("[jobs]\n", &line, 1)).expect("the folder is writable");
    let mut first = exchange_of(&site, local);
    put(100);
    let mut first = beside(move || {
        let Err(RunError::Refused(problem)) = first.clear(RoundKey::new(HISTOGRAM, 1)) else {
            panic!("a hundred times as long")
        };
        assert!(problem.to_string().contains("`jobs.most_cost_per_job`"), "{problem}");
        first
    })
    .await;
    assert_eq!(paid(&site), 0);
    put(1);
    beside(move || drop(clear(&mut first))).await;
    assert_eq!(paid(&site), 0, "it may be made, and is not paid before");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_that_a_dead_life_sealed_is_paid_when_it_leaves() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let mut first = exchange(&site);
    let batch = beside(move || seal(&first.folder().join("out"), 800, clear(&mut first))).await;
    let mut next = exchange(&site);
    beside(move || {
        let unpaid = seal(&next.folder().join("other"), 800, Clearance::Public(PublicProof::in_test()));
        assert!(
            matches!(next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &unpaid, &[]), Err(RunError::Refused(_))),
            "it is sealed as public"
        );
        next.dispatch_batch(RoundKey::new(HISTOGRAM, 1), &batch, &[]).expect("it is what the job reserved for");
    })
    .await;
    assert_eq!(paid(&site), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaves_for_another_round_and_of_private_recordings_the_plan_alone_is_told() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let mut exchange = exchange(&site);
    beside(move || {
        for (series, round) in [(HISTOGRAM, 0), (HISTOGRAM, 2), ("pool", 1)] {
            assert!(
                matches!(exchange.clear(RoundKey::new(series, round)), Err(RunError::Refused(_))),
                "{series}/{round}"
            );
        }
        let planned = Report::from_plan(&spec()).expect("it has noise");
        let more = planned.clone().with(undertone_api::job::transcription::TranscriptionOutcome::default());
        assert!(matches!(exchange.submit_report(AnyReport::Transcription(more)), Err(RunError::Refused(_))));
        let other = Report { words: planned.words + 1, ..planned.clone() };
        assert!(matches!(exchange.submit_report(AnyReport::Transcription(other)), Err(RunError::Refused(_))));
        exchange.submit_report(AnyReport::Transcription(planned)).expect("everybody knows it");
    })
    .await;
    assert_eq!(paid(&site), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_kept_of_recordings_goes_when_its_part_is_over_however_it_ended() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let folder = site.folder.work(JOB, OURS);
    let kept = folder.join("transcription/out/sounds-0");
    write_durably(&kept, b"a voice").expect("the disk has room");
    end_is_told(&site, JOB, OURS, &[]).expect("the disk works");
    assert!(!folder.join("transcription").exists() && folder.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_cannot_be_read_lets_nothing_leave_and_where_it_lies_is_not_told() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let mut exchange = exchange(&site);
    std::fs::write(site.folder.policy(), "kinds = [").expect("the folder is writable");
    let root = site.folder.root().display().to_string();
    beside(move || {
        let Err(RunError::Refused(problem)) = exchange.clear(RoundKey::new(HISTOGRAM, 1)) else {
            panic!("nothing may leave")
        };
        let text = problem.to_string();
        assert!(text.contains("policy cannot be read") && !text.contains(&root), "{text}");
    })
    .await;
    assert_eq!(paid(&site), 0);
}
