//! A server that asks for more than the agreement: the answer is a signed and stored refusal, and the ledger does not
//! change.

use std::sync::atomic::{AtomicI64, Ordering};

use ed25519_dalek::SigningKey;
use time::OffsetDateTime;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::log::{Fault, SiteEvent};
use uuid::Uuid;

use super::*;
use crate::daemon::part::{Look, close, end_is_told, look, take_up};
use crate::fixture::{JOB, LEAD};
use crate::gateway::Work;
use crate::site::clock::Clock;
use crate::site::datasets::note_registered;
use crate::site::jobs::{self, DecisionOrigin, RunOutcome};

fn automatic() -> String {
    TEMPLATE.replace("approval = \"steward\"", "approval = \"automatic\"")
}

fn manual() -> String {
    TEMPLATE.replace("approval = \"steward\"", "approval = \"manual\"")
}

fn private() -> Manifest {
    honest(spec(), Visibility::Private)
}

/// Makes the same job with one more round, honestly charged.
fn wider() -> Manifest {
    let mut wider = dp_sgd();
    wider.private.iter_mut().for_each(|private| private.rounds += 1);
    honest(Spec::DpSgd(wider), Visibility::Private)
}

fn work(signed: &Signed, dataset: DatasetId, lease: &str) -> Offer {
    Offer::Work(v1::Work {
        manifest: Some(signed.clone().into()),
        dataset_id: dataset.to_string(),
        lease: lease.to_owned(),
        lease_seconds: 60,
        steward_approved: true,
        steward: "a steward, says the server".to_owned(),
        approval: String::new(),
    })
}

fn offered(signed: &Signed) -> Work {
    Work {
        manifest: signed.clone(),
        dataset: OURS,
        lease: "before".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward, says the server".to_owned()),
        approval: None,
    }
}

/// Opens the site with its registered dataset, as after a first process of the daemon.
fn known(place: &Place) -> Arc<Site> {
    let site = place.site();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

/// Makes the site begin the honest job, and leaves it reserved.
fn taken_up(place: &Place) -> Arc<Site> {
    let (site, work) = (known(place), offered(&sign(&private())));
    let Look::Go(examined) = look(&site, &work, JOB).expect("the disk works") else { panic!("its policy allows it") };
    let ended = take_up(&site, &work, &examined, "before").expect("the disk works");
    assert_eq!(ended, None, "there is room");
    site
}

/// Returns the head of the ledger's entries.
fn entries(place: &Place) -> (u64, String) {
    let site = place.site();
    let head = site.ledger.books().expect("it is open").entries;
    (head.sequence, head.hash)
}

/// Returns the site's decision on exactly `signed`, from its own records.
fn kept(place: &Place, signed: &Signed, job: JobId, dataset: DatasetId) -> SiteDecision {
    let site = place.site();
    let said = jobs::decision(&site.store, job, dataset, &signed.digest()).expect("it is open");
    said.expect("the refusal is kept").decision
}

/// Offers work that the site must refuse, and returns the signed reason that the server received.
async fn turned_down(place: &Place, server: &Running, signed: &Signed, job: JobId, dataset: DatasetId) -> String {
    let before = entries(place);
    offer(server, work(signed, dataset, "lie"));
    run_until(place, server, |state| !state.decisions.is_empty() && !state.finished.is_empty()).await;
    let told = decided(server, place);
    assert!(!told.approve);
    assert_eq!((&told.manifest, told.job, told.dataset), (&signed.digest(), job, dataset));
    assert_eq!(kept(place, signed, job, dataset), told);
    assert_eq!(entries(place), before, "nothing was reserved, paid or settled");
    assert!(server.state.lock().expect("nobody panicked").vectors.is_empty());
    told.reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_back_wider_is_refused_and_keeps_what_it_had_reserved() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic());
    drop(taken_up(&place));
    let reason = turned_down(&place, &server, &sign(&wider()), JOB, OURS).await;
    assert!(reason.contains("another manifest before"), "{reason}");
    let site = place.site();
    let run = jobs::run(&site.store, JOB, OURS).expect("it is open").expect("it was taken up");
    assert_eq!((run.ended, run.lease.as_str()), (None, "before"), "its own run stands");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_back_when_its_end_was_told_is_refused() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic());
    let site = taken_up(&place);
    let done = RunOutcome::GaveUp { reason: "no data".to_owned() };
    close(&site, JOB, OURS, &done).expect("the disk works");
    end_is_told(&site, JOB, OURS, &[]).expect("the disk works");
    drop(site);
    let reason = turned_down(&place, &server, &sign(&private()), JOB, OURS).await;
    assert!(reason.contains("over at this site"), "{reason}");
    let state = server.state.lock().expect("nobody panicked");
    let Some(v1::finish_request::Outcome::GaveUp(told)) = &state.finished[0].outcome else { panic!("it gave up") };
    assert_eq!(told.reason, "no data", "the end is the same as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_was_lost_on_its_way_is_told_again_without_a_refusal() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic());
    let site = taken_up(&place);
    close(&site, JOB, OURS, &RunOutcome::GaveUp { reason: "no data".to_owned() }).expect("the disk works");
    drop(site);
    let before = entries(&place);
    offer(&server, work(&sign(&private()), OURS, "again"));
    run_until(&place, &server, |state| !state.finished.is_empty()).await;
    assert!(server.state.lock().expect("nobody panicked").decisions.is_empty());
    assert_eq!(entries(&place), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_another_server_signed_is_refused_by_name() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic());
    drop(taken_up(&place));
    let forged = Signed::new(&private(), &SigningKey::from_bytes(&[8; 32])).expect("it has a JSON form");
    let reason = turned_down(&place, &server, &forged, JOB, OURS).await;
    assert!(reason.contains("not signed by the server"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_that_another_server_signed_is_refused_by_name() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic());
    let forged = Signed::new(&private(), &SigningKey::from_bytes(&[8; 32])).expect("it has a JSON form");
    let proposal = v1::Proposal { manifest: Some(forged.clone().into()), dataset_id: OURS.to_string() };
    offer(&server, Offer::Proposal(proposal));
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let told = decided(&server, &place);
    assert!(!told.approve && told.reason.contains("not signed by the server"), "{}", told.reason);
    assert_eq!(kept(&place, &forged, JOB, OURS), told);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_for_a_dataset_that_its_manifest_does_not_give_to_this_worker_is_refused() {
    for dataset in [LEAD, DatasetId(Uuid::from_u128(77))] {
        let server = start(false).await;
        let place = Place::new(&server, &automatic());
        let reason = turned_down(&place, &server, &sign(&private()), JOB, dataset).await;
        assert!(reason.contains("not at this site"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_limits_or_model_that_disagree_with_the_spec_are_refused() {
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
    for (change, said) in changes {
        let server = start(false).await;
        let place = Place::new(&server, &automatic());
        let mut lie = private();
        change(&mut lie);
        let reason = turned_down(&place, &server, &sign(&lie), JOB, OURS).await;
        assert!(reason.contains(said), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_no_longer_holds_is_refused() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic());
    let mut old = private();
    let past = OffsetDateTime::UNIX_EPOCH;
    old.limits.iter_mut().for_each(|limits| limits.not_after = past);
    let reason = turned_down(&place, &server, &sign(&old), JOB, OURS).await;
    assert!(reason.contains("held until"), "{reason}");
}

/// Makes a clock that a test sets, in seconds since 1970.
fn hands(at: &Arc<AtomicI64>) -> Clock {
    let at = Arc::clone(at);
    Arc::new(move || OffsetDateTime::from_unix_timestamp(at.load(Ordering::SeqCst)).expect("within range"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_runs_past_its_limit_releases_nothing_more() {
    let server = start(false).await;
    let place = Place::new(&server, TEMPLATE);
    let manifest = private();
    let until = manifest.limits.as_ref().expect("an honest manifest has limits").not_after.unix_timestamp();
    let time = Arc::new(AtomicI64::new(until - 60));
    let site = Arc::new(Site::open(place.folder(), &place.config, hands(&time)).expect("nobody else has it"));
    let mut exchange = exchange(&site, &manifest, Visibility::Private);
    beside(move || {
        let vector = super::fault::release(&mut exchange, 1);
        exchange.pay_only("private", 1, &vector).expect("it holds a minute more");
        time.store(until + 1, Ordering::SeqCst);
        let refused = exchange.clear(RoundKey::new("private", 2)).map(drop).expect_err("its time is over");
        assert!(
            matches!(&refused, RunError::Refused(reason) if reason.to_string().contains("held until")),
            "{refused}"
        );
    })
    .await;
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_does_not_move_to_the_same_work_under_another_job() {
    let server = start(false).await;
    let place = Place::new(&server, &manual());
    let site = known(&place);
    let first = sign(&private());
    let yes = |signed: &Signed, job| {
        let decision = SiteDecision {
            manifest: signed.digest(),
            job,
            dataset: OURS,
            approve: true,
            reason: String::new(),
            at: (site.clock)(),
        };
        jobs::decide(&site.store, &decision, DecisionOrigin::Terminal).expect("it is open");
    };
    assert!(matches!(look(&site, &offered(&first), JOB).expect("the disk works"), Look::Waits(_)));
    yes(&first, JOB);
    assert!(matches!(look(&site, &offered(&first), JOB).expect("the disk works"), Look::Go(_)));
    let other = JobId(Uuid::from_u128(0xd0));
    let doubled = sign(&Manifest { job: other, ..private() });
    assert!(matches!(look(&site, &offered(&doubled), other).expect("the disk works"), Look::Waits(_)));
    assert_eq!(jobs::decision(&site.store, other, OURS, &doubled.digest()).expect("it is open"), None);
    assert!(site.ledger.books().expect("it is open").accounts.is_empty());
}

/// Runs the daemon until `until`, then refuses the job at the terminal, and waits for its end.
async fn refuse_after(place: &Place, server: &Running, signed: &Signed, until: impl Fn(&State) -> bool) {
    let store = Store::create(&place.folder().ledger()).expect("it is there");
    let refused = std::cell::Cell::new(false);
    run_until(place, server, |state| {
        if !refused.get() && until(state) {
            refused.set(true);
            let no = SiteDecision {
                manifest: signed.digest(),
                job: JOB,
                dataset: OURS,
                approve: false,
                reason: "not this month".to_owned(),
                at: crate::site::clock::system()(),
            };
            jobs::decide(&store, &no, DecisionOrigin::Terminal).expect("it is open");
        }
        refused.get() && state.finished.iter().any(|finish| finish.lease != "lie")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_leases_of_one_job_are_one_run_under_the_later_one() {
    let server = start(false).await;
    let place = Place::new(&server, &manual());
    let signed = sign(&private());
    // The last offer in the list comes first.
    offer(&server, work(&signed, OURS, "second"));
    offer(&server, work(&signed, OURS, "first"));
    refuse_after(&place, &server, &signed, |state| state.leases == ["second"]).await;
    let state = server.state.lock().expect("nobody panicked");
    let leases: Vec<&str> = state.finished.iter().map(|finish| finish.lease.as_str()).collect();
    assert_eq!(leases, ["second"], "it ended once");
    let said = state.logged.iter().map(|event| SiteEvent::try_from(*event).expect("it is known"));
    let faults: Vec<SiteEvent> = said.filter(|said| matches!(said, SiteEvent::Fault { .. })).collect();
    assert_eq!(faults, [SiteEvent::Fault { fault: Fault::RefusedAtTerminal }], "a person said no, and not the policy");
    drop(state);
    assert_eq!(entries(&place).0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wider_manifest_for_a_job_that_is_held_is_refused_and_the_job_goes_on() {
    let server = start(false).await;
    let place = Place::new(&server, &manual());
    let (signed, wider) = (sign(&private()), sign(&wider()));
    offer(&server, work(&wider, OURS, "lie"));
    offer(&server, work(&signed, OURS, "true"));
    refuse_after(&place, &server, &signed, |state| {
        // The false work was answered, and the job's own lease is held.
        !state.decisions.is_empty() && !state.finished.is_empty() && state.leases == ["true"]
    })
    .await;
    let said = kept(&place, &wider, JOB, OURS);
    assert!(!said.approve && said.reason.contains("another manifest before"), "{}", said.reason);
    let state = server.state.lock().expect("nobody panicked");
    let leases: Vec<&str> = state.finished.iter().map(|finish| finish.lease.as_str()).collect();
    assert_eq!(leases, ["lie", "true"], "each lease came back by itself");
    drop(state);
    assert_eq!(entries(&place).0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_average_that_is_not_what_its_digest_says_ends_the_run_and_nothing_more_is_paid() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let mut exchange = exchange(&site, &open_job(), Visibility::Open);
    let state = Arc::clone(&server.state);
    beside(move || {
        let clearance = exchange.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0], clearance).expect("it was published");
        exchange.send_vector(RoundKey::new("open", 1), vector).expect("the server takes it");
        state.lock().expect("nobody panicked").lies = true;
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
