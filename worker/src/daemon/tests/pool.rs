//! A site's pool of questions: stored, paid, sent as the same bytes, and paid once in every case; and requests that a
//! server may not make. Crashes are those of a separate process that really aborts.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::Spec;
use undertone_api::job::active_learning::{Gate as Settings, POOL, PrivateTraining, Spec as ActiveLearning, TRAINING};
use undertone_api::signed::{JobLimits, Manifest};
use undertone_privacy::{PrivacyUnit, SamplingRate};
use undertone_proto::question;
use uuid::Uuid;

use super::fault::{SITE, count_paid, run_until_crash};
use super::{TestSite, open_exchange, run_blocking, sign};
use crate::config::Config;
use crate::config::queries::Queries;
use crate::daemon::Site;
use crate::daemon::decisions::{ProposalVerdict, judge};
use crate::daemon::exchange::SiteExchange;
use crate::dp::randomness::{Purpose, Randomness};
use crate::fault;
use crate::fixture::{LEAD, ORGANIZATION, OURS, WORKER, active_learning, local, manifest, z};
use crate::gateway::fake::{FakeServer, start};
use crate::queries::dataset::Row;
use crate::queries::gate::{Gate, OutgoingPool, Survivors};
use crate::run::{AnswerLine, Artifacts as _, Questions as _, RoundKey, RoundProgress, RunContext as _, RunError};
use crate::site::folder::Folder;
use crate::site::policy::TEMPLATE;

/// Returns a policy that releases queries as strictly as the template.
pub(super) fn policy() -> String {
    TEMPLATE
        .replace("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgd\", \"active_learning\"]")
        .replace("[budget.speaker]", "[budget.record]")
}

/// Makes the manifest of the fixtures' job, as an honest server writes it, after `change` of its spec.
pub(super) fn job(change: impl FnOnce(&mut ActiveLearning)) -> Manifest {
    let mut spec = active_learning();
    change(&mut spec);
    let spec = Spec::ActiveLearning(spec);
    let charge = spec.cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
    let mut manifest = manifest(spec, charge);
    manifest.participants[1].units = 500;
    manifest.limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at));
    manifest
}

/// Returns the survivors of a log with three frequent texts and a hundred rare ones.
fn survivors(work: &Path) -> Survivors {
    let Spec::ActiveLearning(spec) = job(|_| ()).spec else { panic!("it is of this kind") };
    let row = |text: String, count| Ok::<_, String>(Row { text, user: None, count, label: None });
    let frequent = ["block my card", "pay the bill", "where is it"].map(|text| row(text.to_owned(), 4000));
    let rare = (0..100).map(|number| row(format!("secret number {number}"), 1));
    let gate = spec.participants[1].gate.expect("it asks");
    let gate = Gate::new(gate, PrivacyUnit::Record).expect("rows can be protected");
    let chance = Randomness::from_os(Purpose::Rows);
    gate.survivors(frequent.into_iter().chain(rare), 12_100, &Queries::default(), work, chance)
        .expect("the disk has room")
}

/// Makes a pool as the run does: counted, then granted.
pub(super) fn release(exchange: &mut SiteExchange) -> OutgoingPool {
    let survivors = survivors(exchange.folder());
    let clearance = exchange.clear(RoundKey::new(POOL, 1)).expect("it is reserved");
    survivors.release(clearance).expect("it was granted")
}

fn texts(bytes: &[u8]) -> Vec<String> {
    question::read(bytes).expect("it is a pool").map(|question| question.expect("it is a question").text).collect()
}

/// Runs the site in `folder`, in the process that crashes.
async fn run_pool(folder: &Path) {
    let folder = Folder::new(folder);
    let config = Config::load(&folder).expect("it was stored");
    let site = Arc::new(Site::open(folder, &config, crate::site::clock::system()).expect("no other process has it"));
    let mut exchange = open_exchange(&site, &job(|_| ()), Visibility::Private);
    run_blocking(move || {
        let pool = release(&mut exchange);
        exchange.send_pool(RoundKey::new(POOL, 1), pool).expect("the server takes it");
    })
    .await;
}

/// Resumes as a run does after a crash, until the server has the pool.
async fn resume(site: &Arc<Site>, expected: RoundProgress) {
    let mut again = open_exchange(site, &job(|_| ()), Visibility::Private);
    run_blocking(move || {
        assert_eq!(again.round_progress(RoundKey::new(POOL, 1)).expect("the disk works"), expected);
        if expected == RoundProgress::Stored {
            again.resend_pool(RoundKey::new(POOL, 1)).expect("the server takes it");
        } else {
            let pool = release(&mut again);
            again.send_pool(RoundKey::new(POOL, 1), pool).expect("the server takes it");
        }
        assert_eq!(again.round_progress(RoundKey::new(POOL, 1)).expect("the disk works"), RoundProgress::Accepted);
        assert!(matches!(again.clear(RoundKey::new(POOL, 1)), Err(RunError::Failed(_))), "a job has one pool");
    })
    .await;
}

/// Asserts one payment and one receipt of it at the server, after any crash.
fn assert_one_payment(site: &Site, server: &FakeServer) {
    assert_eq!(count_paid(site), 1);
    let state = server.state.lock().expect("no test panicked");
    let receipts: Vec<_> =
        state.receipts.iter().map(|receipt| (receipt.series.as_str(), receipt.round, receipt.attempt)).collect();
    assert_eq!(receipts, [(POOL, 1, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn process_crashed_before_sending_sends_one_pool_per_payment() {
    if let Some(folder) = std::env::var_os(SITE) {
        return run_pool(Path::new(&folder)).await;
    }
    let name = "process_crashed_before_sending_sends_one_pool_per_payment";
    for (point, past, payments) in [
        (fault::BEFORE_STORE, RoundProgress::Untouched, 0),
        (fault::AFTER_STORE, RoundProgress::Stored, 0),
        (fault::AFTER_COMMIT, RoundProgress::Stored, 1),
        (fault::AFTER_COUNTERSIGN, RoundProgress::Stored, 1),
    ] {
        let server = start(false).await;
        let place = TestSite::new(&server, &policy());
        run_until_crash(&place, module_path!(), name, point).await;
        assert!(server.state.lock().expect("no test panicked").posed.is_empty(), "{point}: nothing had left");
        let site = place.open();
        assert_eq!(count_paid(&site), payments, "{point}");
        resume(&site, past).await;
        assert_one_payment(&site, &server);
        let state = server.state.lock().expect("no test panicked");
        assert_eq!(state.posed.len(), 1, "{point}");
        assert_eq!(texts(&state.posed[0].1), ["block my card", "pay the bill", "where is it"], "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn process_crashed_after_sending_resends_the_same_bytes() {
    if let Some(folder) = std::env::var_os(SITE) {
        return run_pool(Path::new(&folder)).await;
    }
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let name = "process_crashed_after_sending_resends_the_same_bytes";
    run_until_crash(&place, module_path!(), name, fault::AFTER_SEND).await;
    let site = place.open();
    resume(&site, RoundProgress::Stored).await;
    assert_one_payment(&site, &server);
    let state = server.state.lock().expect("no test panicked");
    assert_eq!(state.posed.len(), 2, "it was sent again");
    assert_eq!(state.posed[0], state.posed[1], "to the byte");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_pool_is_sent_by_the_next_process() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let mut first = open_exchange(&site, &job(|_| ()), Visibility::Private);
    run_blocking(move || {
        let pool = release(&mut first);
        first.pay_unsent_pool(POOL, 1, &pool).expect("the disk has room");
    })
    .await;
    drop(site);
    let site = place.open();
    resume(&site, RoundProgress::Stored).await;
    assert_one_payment(&site, &server);
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_leaves_only_for_its_cleared_round() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let mut exchange = open_exchange(&site, &job(|_| ()), Visibility::Private);
    run_blocking(move || {
        for (series, round) in [(POOL, 0), (POOL, 2), ("private", 1), ("pools", 1)] {
            assert!(
                matches!(exchange.clear(RoundKey::new(series, round)), Err(RunError::Refused(_))),
                "{series}/{round}"
            );
        }
        let pool = release(&mut exchange);
        assert!(matches!(exchange.send_pool(RoundKey::new(POOL, 2), pool), Err(RunError::Refused(_))));
        assert!(matches!(exchange.resend_pool(RoundKey::new(POOL, 1)), Err(RunError::Failed(_))), "nothing was kept");
    })
    .await;
    assert!(server.state.lock().expect("no test panicked").posed.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn private_part_neither_reads_pools_nor_chooses_questions() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let mut exchange = open_exchange(&site, &job(|_| ()), Visibility::Private);
    run_blocking(move || {
        assert!(matches!(exchange.fetch_pools(), Err(RunError::Refused(_))));
        assert!(matches!(exchange.choose_questions(1, &[]), Err(RunError::Refused(_))));
        assert!(matches!(exchange.confirm_public(OURS), Err(RunError::Refused(_))));
        assert!(matches!(exchange.confirm_public(LEAD), Err(RunError::Failed(_))), "it is not here");
    })
    .await;
    assert!(server.state.lock().expect("no test panicked").choices.is_empty());
}

/// Makes the manifest of a job that the site's private log leads, with a training or without.
fn led_privately(training: Option<PrivateTraining>) -> Manifest {
    let mut manifest = job(|spec| {
        spec.private_lead = training;
        spec.participants[1].gate = spec.participants[0].gate;
        spec.participants.reverse();
    });
    let ours = local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER);
    manifest.participants.reverse();
    manifest.participants[0].charge = manifest.spec.cost(&ours);
    manifest.limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at));
    manifest
}

#[tokio::test(flavor = "multi_thread")]
async fn private_lead_hands_in_what_follows_from_its_paid_trainings() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    let training = PrivateTraining {
        sampling_rate: SamplingRate::new(0.125).expect("a probability"),
        noise_multiplier: z(4.0),
        clip: 1.0,
        steps: 5,
        learning_rate: 0.05,
    };
    let mut unpaid = open_exchange(&site, &led_privately(None), Visibility::Private);
    let mut exchange = open_exchange(&site, &with_number(led_privately(Some(training)), 300), Visibility::Private);
    run_blocking(move || {
        assert!(matches!(unpaid.clear(RoundKey::new(TRAINING, 1)), Err(RunError::Refused(_))));
        assert!(matches!(unpaid.put_file("labels.jsonl", Vec::new()), Err(RunError::Refused(_))));
        assert!(matches!(unpaid.choose_questions(1, &[]), Err(RunError::Refused(_))));

        // Two rounds of questions, three trainings, and nothing else of the log.
        let clearance = exchange.clear(RoundKey::new(TRAINING, 3)).expect("it is reserved");
        assert!(clearance.split(NonZeroU32::new(5).expect("at least 1")).is_ok(), "for its steps");
        for (series, round) in [(TRAINING, 0), (TRAINING, 4), (POOL, 1), ("classifier", 1)] {
            let refusal = exchange.clear(RoundKey::new(series, round));
            assert!(matches!(refusal, Err(RunError::Refused(_))), "{series}/{round}");
        }
        assert!(matches!(exchange.confirm_public(OURS), Err(RunError::Refused(_))), "its rows stay private");
        exchange.choose_questions(1, &[]).expect("a choice follows from releases");
    })
    .await;
}

/// Returns the site's reason to refuse a manifest.
fn refusal(site: &Site, manifest: &Manifest) -> String {
    match judge(site, &sign(manifest), OURS).expect("the disk works") {
        ProposalVerdict::Refused(reason) => reason,
        ProposalVerdict::Allowed(..) => panic!("it must not run"),
    }
}

/// Returns the gate of our log.
fn gate(spec: &mut ActiveLearning) -> &mut Settings {
    spec.participants[1].gate.as_mut().expect("it asks")
}

/// Gives a manifest another job id: a site accepts one manifest per id.
fn with_number(mut manifest: Manifest, number: u128) -> Manifest {
    manifest.job = JobId(Uuid::from_u128(number));
    manifest
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_against_charge_or_policy_is_refused() {
    type Change = fn(&mut ActiveLearning);
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    site.set_datasets(vec![local(Visibility::Private)]);
    assert!(
        matches!(judge(&site, &sign(&job(|_| ())), OURS), Ok(ProposalVerdict::Allowed(..))),
        "an honest one may run"
    );
    // The server weakens the gate and keeps the charge.
    let mut weak_manifest = with_number(job(|_| ()), 100);
    let Spec::ActiveLearning(spec) = &mut weak_manifest.spec else { panic!("it is of this kind") };
    gate(spec).threshold = NonZeroU32::new(20).expect("at least 1");
    let reason = refusal(&site, &weak_manifest);
    assert!(reason.contains("does not charge"), "{reason}");
    // It charges honestly, and the policy refuses.
    let cases: [(Change, &str); 3] = [
        (|spec| gate(spec).threshold = NonZeroU32::MIN, "least_threshold"),
        (|spec| gate(spec).sampling_rate = SamplingRate::new(0.6).expect("a probability"), "most_sampling_rate"),
        (|spec| spec.unit = PrivacyUnit::User, "keep units"),
    ];
    for (number, (change, text)) in (101..).zip(cases) {
        let reason = refusal(&site, &with_number(job(change), number));
        assert!(reason.contains(text), "{reason}");
    }
    std::fs::write(place.folder().policy(), TEMPLATE).expect("the folder is writable");
    let reason = refusal(&site, &with_number(job(|_| ()), 200));
    assert!(reason.contains("active_learning"), "a new site releases no queries: {reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lead_accepts_pools_of_asking_datasets_only() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{}\n[datasets.\"ward-7\"]\nvisibility = \"public\"\n", policy()));
    let site = place.open();
    let mut manifest = job(|_| ());
    manifest.participants[1].charge = None;
    manifest.limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at));
    let pool = |text: &str| {
        question::write(vec![question::QuestionLine { text: text.to_owned(), count: Some(40) }]).expect("a pool")
    };
    let set_pools = |pools: Vec<(DatasetId, Vec<u8>)>| server.state.lock().expect("no test panicked").pools = pools;
    for pools in [vec![(LEAD, pool("a"))], vec![(OURS, pool("a")), (OURS, pool("b"))], vec![(OURS, vec![1, 2, 3])]] {
        set_pools(pools);
        let mut exchange = open_exchange(&site, &manifest, Visibility::Public);
        run_blocking(move || assert!(matches!(exchange.fetch_pools(), Err(RunError::Failed(_))))).await;
    }
    set_pools(vec![(OURS, pool("where is my card"))]);
    let id = question::id(manifest.job, OURS, "where is my card");
    let answer = AnswerLine { question: id, annotator: 1, answer: undertone_api::question::Answer::Skip };
    server.state.lock().expect("no test panicked").answers.insert(1, vec![answer.clone()]);
    let mut exchange = open_exchange(&site, &manifest, Visibility::Public);
    run_blocking(move || {
        let questions = exchange.fetch_pools().expect("it is there");
        assert_eq!((questions.len(), questions[0].id(), questions[0].count()), (1, id, Some(40)));
        exchange.choose_questions(1, &[(id, 0.5)]).expect("it is taken");
        assert_eq!(exchange.fetch_answers(1).expect("the round is closed"), [answer]);
    })
    .await;
    assert_eq!(server.state.lock().expect("no test panicked").choices.len(), 1);
}
