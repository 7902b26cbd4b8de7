//! A server that asks for more than the agreement: the answer is a signed and stored refusal, and the ledger does not
//! change.

use std::sync::atomic::{AtomicI64, Ordering};

use ed25519_dalek::SigningKey;
use time::OffsetDateTime;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::PartyTerms;
use undertone_api::job::log::{Fault, SiteEvent};
use uuid::Uuid;

use super::*;
use crate::daemon::{WorkExamination, acknowledge_end, begin_part, close_part, examine_work};
use crate::fixture::{JOB, LEAD};
use crate::gateway::OfferedWork;
use crate::site::clock::Clock;
use crate::site::datasets::note_registered;
use crate::site::jobs::{self, DecisionOrigin, RunOutcome};

fn automatic_policy() -> String {
    TEMPLATE.replace("approval = \"steward\"", "approval = \"automatic\"")
}

fn manual_policy() -> String {
    TEMPLATE.replace("approval = \"steward\"", "approval = \"manual\"")
}

fn private_manifest() -> Manifest {
    honest_manifest(spec(), Visibility::Private)
}

/// Makes the same job with one more round, honestly charged.
fn wider_manifest() -> Manifest {
    let mut spec = dp_sgd();
    spec.private.iter_mut().for_each(|private| private.rounds += 1);
    honest_manifest(Spec::DpSgd(spec), Visibility::Private)
}

fn make_offer(signed: &Signed, dataset: DatasetId, lease: &str) -> Offer {
    Offer::Work(v1::Work {
        manifest: Some(signed.clone().into()),
        dataset_id: dataset.to_string(),
        lease: lease.to_owned(),
        lease_seconds: 60,
        steward_approved: true,
        steward: "a steward named by the server".to_owned(),
        approval: String::new(),
    })
}

fn make_work(signed: &Signed) -> OfferedWork {
    OfferedWork {
        manifest: signed.clone(),
        dataset: OURS,
        lease: "before".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward named by the server".to_owned()),
        approval: None,
    }
}

/// Opens the site with its registered dataset, as after a first process of the daemon.
fn open_registered(place: &TestSite) -> Arc<Site> {
    let site = place.open();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

/// Makes the site begin the honest job, and leaves it reserved.
fn begin_job(place: &TestSite) -> Arc<Site> {
    let site = open_registered(place);
    let work = make_work(&sign(&private_manifest()));
    let WorkExamination::Ready(examined) = examine_work(&site, &work, JOB).expect("the disk works") else {
        panic!("its policy allows it")
    };
    let refusal = begin_part(&site, &work, &examined, "before").expect("the disk works");
    assert_eq!(refusal, None, "there is room");
    site
}

/// Returns the head of the ledger's entries.
fn head_of_entries(place: &TestSite) -> (u64, String) {
    let site = place.open();
    let head = site.ledger.books().expect("it is open").entries;
    (head.sequence, head.hash)
}

/// Returns the site's decision on exactly `signed`, from its own records.
fn stored_decision(place: &TestSite, signed: &Signed, job: JobId, dataset: DatasetId) -> SiteDecision {
    let site = place.open();
    let answer = jobs::decision(&site.store, job, dataset, &signed.digest()).expect("it is open");
    answer.expect("the refusal is stored").decision
}

/// Offers work that the site must refuse, and returns the signed reason that the server received.
async fn refusal_reason(
    place: &TestSite,
    server: &FakeServer,
    signed: &Signed,
    job: JobId,
    dataset: DatasetId,
) -> String {
    let before = head_of_entries(place);
    offer(server, make_offer(signed, dataset, "lie"));
    run_until(place, server, |state| !state.decisions.is_empty() && !state.finished.is_empty()).await;
    let decision = first_decision(server, place);
    assert!(!decision.approve);
    assert_eq!((&decision.manifest, decision.job, decision.dataset), (&signed.digest(), job, dataset));
    assert_eq!(stored_decision(place, signed, job, dataset), decision);
    assert_eq!(head_of_entries(place), before, "nothing was reserved, paid or settled");
    assert!(server.state.lock().expect("no test panicked").vectors.is_empty());
    decision.reason
}

#[tokio::test(flavor = "multi_thread")]
async fn wider_manifest_is_refused_and_keeps_the_reservation() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy());
    drop(begin_job(&place));
    let reason = refusal_reason(&place, &server, &sign(&wider_manifest()), JOB, OURS).await;
    assert!(reason.contains("another manifest before"), "{reason}");
    let site = place.open();
    let run = jobs::run(&site.store, JOB, OURS).expect("it is open").expect("it was begun");
    assert_eq!((run.ended, run.lease.as_str()), (None, "before"), "its own run stands");
}

#[tokio::test(flavor = "multi_thread")]
async fn job_with_an_acknowledged_end_is_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy());
    let site = begin_job(&place);
    let outcome = RunOutcome::GaveUp { reason: "no data".to_owned() };
    close_part(&site, JOB, OURS, &outcome).expect("the disk works");
    acknowledge_end(&site, JOB, OURS, &[]).expect("the disk works");
    drop(site);
    let reason = refusal_reason(&place, &server, &sign(&private_manifest()), JOB, OURS).await;
    assert!(reason.contains("over at this site"), "{reason}");
    let state = server.state.lock().expect("no test panicked");
    let Some(v1::finish_request::Outcome::GaveUp(end)) = &state.finished[0].outcome else { panic!("it gave up") };
    assert_eq!(end.reason, "no data", "the end is the same as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_end_is_resent_without_a_refusal() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy());
    let site = begin_job(&place);
    close_part(&site, JOB, OURS, &RunOutcome::GaveUp { reason: "no data".to_owned() }).expect("the disk works");
    drop(site);
    let before = head_of_entries(&place);
    offer(&server, make_offer(&sign(&private_manifest()), OURS, "again"));
    run_until(&place, &server, |state| !state.finished.is_empty()).await;
    assert!(server.state.lock().expect("no test panicked").decisions.is_empty());
    assert_eq!(head_of_entries(&place), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_signed_by_another_server_is_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy());
    drop(begin_job(&place));
    let forged = Signed::new(&private_manifest(), &SigningKey::from_bytes(&[8; 32])).expect("it has a JSON form");
    let reason = refusal_reason(&place, &server, &forged, JOB, OURS).await;
    assert!(reason.contains("not signed by the server"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn proposal_signed_by_another_server_is_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy());
    let forged = Signed::new(&private_manifest(), &SigningKey::from_bytes(&[8; 32])).expect("it has a JSON form");
    let proposal = v1::Proposal { manifest: Some(forged.clone().into()), dataset_id: OURS.to_string() };
    offer(&server, Offer::Proposal(proposal));
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let decision = first_decision(&server, &place);
    assert!(!decision.approve && decision.reason.contains("not signed by the server"), "{}", decision.reason);
    assert_eq!(stored_decision(&place, &forged, JOB, OURS), decision);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_for_a_foreign_dataset_is_refused() {
    for dataset in [LEAD, DatasetId(Uuid::from_u128(77))] {
        let server = start(false).await;
        let place = TestSite::new(&server, &automatic_policy());
        let reason = refusal_reason(&place, &server, &sign(&private_manifest()), JOB, dataset).await;
        assert!(reason.contains("not at this site"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn charge_limits_or_model_against_the_spec_are_refused() {
    type Change = fn(&mut Manifest);
    let changes: [(Change, &str); 5] = [
        (
            |manifest| manifest.participants[1].charge.iter_mut().for_each(|charge| charge.releases -= 1),
            "does not charge",
        ),
        (|manifest| manifest.participants[1].charge = None, "does not charge"),
        (|manifest| manifest.limits.iter_mut().for_each(|limits| limits.rounds += 1), "limits are not those"),
        (|manifest| manifest.limits = None, "has no limits"),
        (|manifest| manifest.model = spec().model(99), "another model"),
    ];
    for (change, text) in changes {
        let server = start(false).await;
        let place = TestSite::new(&server, &automatic_policy());
        let mut manifest = private_manifest();
        change(&mut manifest);
        let reason = refusal_reason(&place, &server, &sign(&manifest), JOB, OURS).await;
        assert!(reason.contains(text), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_manifest_is_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy());
    let mut manifest = private_manifest();
    let past = OffsetDateTime::UNIX_EPOCH;
    manifest.limits.iter_mut().for_each(|limits| limits.not_after = past);
    let reason = refusal_reason(&place, &server, &sign(&manifest), JOB, OURS).await;
    assert!(reason.contains("held until"), "{reason}");
}

/// Makes a clock that a test sets, in seconds since 1970.
fn test_clock(seconds: &Arc<AtomicI64>) -> Clock {
    let seconds = Arc::clone(seconds);
    Arc::new(move || OffsetDateTime::from_unix_timestamp(seconds.load(Ordering::SeqCst)).expect("within range"))
}

#[tokio::test(flavor = "multi_thread")]
async fn job_past_its_limit_releases_nothing_more() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let manifest = private_manifest();
    let until = manifest.limits.as_ref().expect("an honest manifest has limits").not_after.unix_timestamp();
    let time = Arc::new(AtomicI64::new(until - 60));
    let site = Arc::new(Site::open(place.folder(), &place.config, test_clock(&time)).expect("no other process has it"));
    let mut exchange = open_exchange(&site, &manifest, Visibility::Private);
    run_blocking(move || {
        let vector = super::fault::release(&mut exchange, 1);
        exchange.pay_unsent("private", 1, &vector).expect("it holds a minute more");
        time.store(until + 1, Ordering::SeqCst);
        let error = exchange.clear(RoundKey::new("private", 2)).map(drop).expect_err("its time is over");
        assert!(matches!(&error, RunError::Refused(reason) if reason.to_string().contains("held until")), "{error}");
    })
    .await;
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_does_not_cover_the_same_work_of_another_job() {
    let server = start(false).await;
    let place = TestSite::new(&server, &manual_policy());
    let site = open_registered(&place);
    let first = sign(&private_manifest());
    let approve = |signed: &Signed, job| {
        let decision = SiteDecision {
            manifest: signed.digest(),
            job,
            dataset: OURS,
            approve: true,
            reason: String::new(),
            terms: PartyTerms::default(),
            at: (site.clock)(),
        };
        jobs::decide(&site.store, &decision, DecisionOrigin::Terminal).expect("it is open");
    };
    assert!(matches!(
        examine_work(&site, &make_work(&first), JOB).expect("the disk works"),
        WorkExamination::Waiting(_)
    ));
    approve(&first, JOB);
    assert!(matches!(examine_work(&site, &make_work(&first), JOB).expect("the disk works"), WorkExamination::Ready(_)));
    let other = JobId(Uuid::from_u128(0xd0));
    let copy = sign(&Manifest { job: other, ..private_manifest() });
    assert!(matches!(
        examine_work(&site, &make_work(&copy), other).expect("the disk works"),
        WorkExamination::Waiting(_)
    ));
    assert_eq!(jobs::decision(&site.store, other, OURS, &copy.digest()).expect("it is open"), None);
    assert!(site.ledger.books().expect("it is open").accounts.is_empty());
}

/// Runs the daemon until `until`, then refuses the job at the terminal, and waits for its end.
async fn refuse_after(place: &TestSite, server: &FakeServer, signed: &Signed, until: impl Fn(&FakeState) -> bool) {
    let store = Store::create(&place.folder().ledger()).expect("it is there");
    let is_refused = std::cell::Cell::new(false);
    run_until(place, server, |state| {
        if !is_refused.get() && until(state) {
            is_refused.set(true);
            let refusal = SiteDecision {
                manifest: signed.digest(),
                job: JOB,
                dataset: OURS,
                approve: false,
                reason: "not this month".to_owned(),
                terms: PartyTerms::default(),
                at: crate::site::clock::system()(),
            };
            jobs::decide(&store, &refusal, DecisionOrigin::Terminal).expect("it is open");
        }
        is_refused.get() && state.finished.iter().any(|finish| finish.lease != "lie")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_leases_of_one_job_are_one_run_under_the_later_one() {
    let server = start(false).await;
    let place = TestSite::new(&server, &manual_policy());
    let signed = sign(&private_manifest());
    // The last offer in the list comes first.
    offer(&server, make_offer(&signed, OURS, "second"));
    offer(&server, make_offer(&signed, OURS, "first"));
    refuse_after(&place, &server, &signed, |state| state.leases == ["second"]).await;
    let state = server.state.lock().expect("no test panicked");
    let leases: Vec<&str> = state.finished.iter().map(|finish| finish.lease.as_str()).collect();
    assert_eq!(leases, ["second"], "it ended once");
    let events = state.logged.iter().map(|event| SiteEvent::try_from(*event).expect("it is known"));
    let faults: Vec<SiteEvent> = events.filter(|event| matches!(event, SiteEvent::Fault { .. })).collect();
    assert_eq!(
        faults,
        [SiteEvent::Fault { fault: Fault::RefusedAtTerminal }],
        "a person refused it, and not the policy"
    );
    drop(state);
    assert_eq!(head_of_entries(&place).0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wider_manifest_for_a_running_job_is_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, &manual_policy());
    let signed = sign(&private_manifest());
    let wider = sign(&wider_manifest());
    offer(&server, make_offer(&wider, OURS, "lie"));
    offer(&server, make_offer(&signed, OURS, "true"));
    refuse_after(&place, &server, &signed, |state| {
        // The false work was answered, and the job's own lease is held.
        !state.decisions.is_empty() && !state.finished.is_empty() && state.leases == ["true"]
    })
    .await;
    let decision = stored_decision(&place, &wider, JOB, OURS);
    assert!(!decision.approve && decision.reason.contains("another manifest before"), "{}", decision.reason);
    let state = server.state.lock().expect("no test panicked");
    let leases: Vec<&str> = state.finished.iter().map(|finish| finish.lease.as_str()).collect();
    assert_eq!(leases, ["lie", "true"], "each lease came back once");
    drop(state);
    assert_eq!(head_of_entries(&place).0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn average_with_a_wrong_digest_ends_the_run() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let mut exchange = open_exchange(&site, &make_open_job(), Visibility::Open);
    let state = Arc::clone(&server.state);
    run_blocking(move || {
        let clearance = exchange.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0], clearance).expect("it was published");
        exchange.send_vector(RoundKey::new("open", 1), vector).expect("the server takes it");
        state.lock().expect("no test panicked").lies = true;
        let average = exchange.fetch_average(RoundKey::new("open", 1)).map(drop);
        assert!(
            matches!(&average, Err(RunError::Failed(problem)) if problem.to_string().contains("digest")),
            "{average:?}"
        );
        assert!(matches!(exchange.is_closed(RoundKey::new("open", 1)), Err(RunError::Failed(_))));
    })
    .await;
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 1);
}
