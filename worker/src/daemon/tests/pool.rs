//! A pool of questions on its way out: stored, paid, sent as the same bytes, and paid once in every case; and requests
//! that a server may not make. Crashes are those of a separate process that really aborts.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::Spec;
use undertone_api::job::active_learning::{Gate as Settings, POOL, Spec as ActiveLearning};
use undertone_api::signed::{JobLimits, Manifest};
use undertone_privacy::{PrivacyUnit, SamplingRate};
use undertone_proto::question;
use uuid::Uuid;

use super::fault::{SITE, die, paid};
use super::{Place, beside, exchange, sign};
use crate::config::Config;
use crate::config::queries::Queries;
use crate::daemon::Site;
use crate::daemon::desk::{Verdict, judge};
use crate::daemon::exchange::SiteExchange;
use crate::dp::randomness::{Purpose, Randomness};
use crate::fault;
use crate::fixture::{LEAD, ORGANIZATION, OURS, WORKER, active_learning, local, manifest};
use crate::gateway::fake::{Running, start};
use crate::queries::dataset::Row;
use crate::queries::gate::{Gate, OutgoingPool, Survivors};
use crate::run::{AnswerLine, Questions as _, RoundKey, RoundProgress, RunContext as _, RunError};
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
    let often = ["block my card", "pay the bill", "where is it"].map(|text| row(text.to_owned(), 4000));
    let rare = (0..100).map(|number| row(format!("secret number {number}"), 1));
    let gate = spec.participants[1].gate.expect("it asks");
    let gate = Gate::new(gate, PrivacyUnit::Record).expect("rows can be protected");
    let chance = Randomness::from_os(Purpose::Rows);
    gate.survivors(often.into_iter().chain(rare), 12_100, &Queries::default(), work, chance).expect("the disk has room")
}

/// Makes a pool as the run does: counted, then granted.
pub(super) fn release(exchange: &mut SiteExchange) -> OutgoingPool {
    let survivors = survivors(exchange.folder());
    let clearance = exchange.clear(RoundKey::new(POOL, 1)).expect("it is reserved");
    survivors.release(clearance).expect("it was granted")
}

fn texts(bytes: &[u8]) -> Vec<String> {
    question::read(bytes).expect("it is a pool").map(|posed| posed.expect("it is a question").text).collect()
}

/// Runs the site in `folder`, in the process that dies.
async fn live(folder: &Path) {
    let folder = Folder::new(folder);
    let config = Config::load(&folder).expect("it was stored");
    let site = Arc::new(Site::open(folder, &config, crate::site::clock::system()).expect("nobody else has it"));
    let mut exchange = exchange(&site, &job(|_| ()), Visibility::Private);
    beside(move || {
        let pool = release(&mut exchange);
        exchange.send_pool(RoundKey::new(POOL, 1), pool).expect("the server takes it");
    })
    .await;
}

/// Resumes as a run does after a crash, until the server has the pool.
async fn go_on(site: &Arc<Site>, expected: RoundProgress) {
    let mut again = exchange(site, &job(|_| ()), Visibility::Private);
    beside(move || {
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
fn paid_once(site: &Site, server: &Running) {
    assert_eq!(paid(site), 1);
    let state = server.state.lock().expect("nobody panicked");
    let told: Vec<_> =
        state.receipts.iter().map(|receipt| (receipt.series.as_str(), receipt.round, receipt.attempt)).collect();
    assert_eq!(told, [(POOL, 1, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn process_that_died_before_sending_sends_one_pool_for_one_payment() {
    if let Some(folder) = std::env::var_os(SITE) {
        return live(Path::new(&folder)).await;
    }
    let name = "process_that_died_before_sending_sends_one_pool_for_one_payment";
    for (point, past, payments) in [
        (fault::BEFORE_STORE, RoundProgress::Untouched, 0),
        (fault::AFTER_STORE, RoundProgress::Stored, 0),
        (fault::AFTER_COMMIT, RoundProgress::Stored, 1),
        (fault::AFTER_COUNTERSIGN, RoundProgress::Stored, 1),
    ] {
        let server = start(false).await;
        let place = Place::new(&server, &policy());
        die(&place, module_path!(), name, point).await;
        assert!(server.state.lock().expect("nobody panicked").posed.is_empty(), "{point}: nothing had left");
        let site = place.site();
        assert_eq!(paid(&site), payments, "{point}");
        go_on(&site, past).await;
        paid_once(&site, &server);
        let state = server.state.lock().expect("nobody panicked");
        assert_eq!(state.posed.len(), 1, "{point}");
        assert_eq!(texts(&state.posed[0].1), ["block my card", "pay the bill", "where is it"], "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_died_between_pool_and_note_sends_the_same_bytes_for_the_same_payment() {
    if let Some(folder) = std::env::var_os(SITE) {
        return live(Path::new(&folder)).await;
    }
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let name = "a_process_that_died_between_pool_and_note_sends_the_same_bytes_for_the_same_payment";
    die(&place, module_path!(), name, fault::AFTER_SEND).await;
    let site = place.site();
    go_on(&site, RoundProgress::Stored).await;
    paid_once(&site, &server);
    let state = server.state.lock().expect("nobody panicked");
    assert_eq!(state.posed.len(), 2, "it was sent again");
    assert_eq!(state.posed[0], state.posed[1], "to the byte");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_was_kept_is_sent_by_the_next_life() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let mut first = exchange(&site, &job(|_| ()), Visibility::Private);
    beside(move || {
        let pool = release(&mut first);
        first.pay_pool_only(POOL, 1, &pool).expect("the disk has room");
    })
    .await;
    drop(site);
    let site = place.site();
    go_on(&site, RoundProgress::Stored).await;
    paid_once(&site, &server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_leaves_only_for_the_round_it_was_cleared_for() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let mut exchange = exchange(&site, &job(|_| ()), Visibility::Private);
    beside(move || {
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
    assert!(server.state.lock().expect("nobody panicked").posed.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_part_neither_reads_pools_nor_chooses_nor_calls_its_log_public() {
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    let mut exchange = exchange(&site, &job(|_| ()), Visibility::Private);
    beside(move || {
        assert!(matches!(exchange.fetch_pools(), Err(RunError::Refused(_))));
        assert!(matches!(exchange.choose_questions(1, &[]), Err(RunError::Refused(_))));
        assert!(matches!(exchange.confirm_public(OURS), Err(RunError::Refused(_))));
        assert!(matches!(exchange.confirm_public(LEAD), Err(RunError::Failed(_))), "it is not here");
    })
    .await;
    assert!(server.state.lock().expect("nobody panicked").chosen.is_empty());
}

/// Returns the site's reason to refuse a manifest.
fn refusal(site: &Site, manifest: &Manifest) -> String {
    match judge(site, &sign(manifest), OURS).expect("the disk works") {
        Verdict::Refused(reason) => reason,
        Verdict::Allowed(..) => panic!("it must not run"),
    }
}

/// Returns the gate of our log.
fn gate(spec: &mut ActiveLearning) -> &mut Settings {
    spec.participants[1].gate.as_mut().expect("it asks")
}

/// Gives a manifest another job id: a site accepts one manifest per id.
fn numbered(mut manifest: Manifest, number: u128) -> Manifest {
    manifest.job = JobId(Uuid::from_u128(number));
    manifest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_not_what_the_site_pays_or_weaker_than_its_policy_is_refused() {
    type Change = fn(&mut ActiveLearning);
    let server = start(false).await;
    let place = Place::new(&server, &policy());
    let site = place.site();
    site.hold(vec![local(Visibility::Private)]);
    assert!(matches!(judge(&site, &sign(&job(|_| ())), OURS), Ok(Verdict::Allowed(..))), "an honest one may run");
    // The server weakens the gate and keeps the charge.
    let mut weakened = numbered(job(|_| ()), 100);
    let Spec::ActiveLearning(spec) = &mut weakened.spec else { panic!("it is of this kind") };
    gate(spec).threshold = NonZeroU32::new(20).expect("at least 1");
    let said = refusal(&site, &weakened);
    assert!(said.contains("does not charge"), "{said}");
    // It charges honestly, and the policy refuses.
    let cases: [(Change, &str); 3] = [
        (|spec| gate(spec).threshold = NonZeroU32::MIN, "least_threshold"),
        (|spec| gate(spec).sampling_rate = SamplingRate::new(0.6).expect("a probability"), "most_sampling_rate"),
        (|spec| spec.unit = PrivacyUnit::User, "keep units"),
    ];
    for (number, (change, named)) in (101..).zip(cases) {
        let said = refusal(&site, &numbered(job(change), number));
        assert!(said.contains(named), "{said}");
    }
    std::fs::write(place.folder().policy(), TEMPLATE).expect("the folder is writable");
    let said = refusal(&site, &numbered(job(|_| ()), 200));
    assert!(said.contains("active_learning"), "a new site lets no queries out: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lead_believes_pools_only_of_those_who_ask_and_hears_answers() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{}\n[datasets.\"ward-7\"]\nvisibility = \"public\"\n", policy()));
    let site = place.site();
    let mut manifest = job(|_| ());
    manifest.participants[1].charge = None;
    manifest.limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at));
    let pool = |text: &str| {
        question::write(vec![question::QuestionLine { text: text.to_owned(), count: Some(40) }]).expect("a pool")
    };
    let give = |pools: Vec<(DatasetId, Vec<u8>)>| server.state.lock().expect("nobody panicked").pools = pools;
    for pools in [vec![(LEAD, pool("a"))], vec![(OURS, pool("a")), (OURS, pool("b"))], vec![(OURS, vec![1, 2, 3])]] {
        give(pools);
        let mut exchange = exchange(&site, &manifest, Visibility::Public);
        beside(move || assert!(matches!(exchange.fetch_pools(), Err(RunError::Failed(_))))).await;
    }
    give(vec![(OURS, pool("where is my card"))]);
    let id = question::id(manifest.job, OURS, "where is my card");
    let answer = AnswerLine { question: id, annotator: 1, answer: undertone_api::question::Answer::Skip };
    server.state.lock().expect("nobody panicked").answers.insert(1, vec![answer.clone()]);
    let mut exchange = exchange(&site, &manifest, Visibility::Public);
    beside(move || {
        let asked = exchange.fetch_pools().expect("it is there");
        assert_eq!((asked.len(), asked[0].id(), asked[0].count()), (1, id, Some(40)));
        exchange.choose_questions(1, &[(id, 0.5)]).expect("it is taken");
        assert_eq!(exchange.fetch_answers(1).expect("the round is closed"), [answer]);
    })
    .await;
    assert_eq!(server.state.lock().expect("nobody panicked").chosen.len(), 1);
}
