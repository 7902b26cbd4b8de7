//! Automatic approvals stay within their total, for any order of jobs.

use std::sync::atomic::{AtomicI64, Ordering};

use time::{Duration, OffsetDateTime};
use undertone_api::id::JobId;
use undertone_api::job::PartyTerms;
use undertone_api::signed::JobLimits;
use undertone_privacy::ledger::{Balance, FilterKind};
use undertone_privacy::{Delta, Epsilon};
use uuid::Uuid;

use super::*;
use crate::daemon::decisions::{self, consider, pending_decisions};
use crate::daemon::{WorkExamination, begin_part, close_part, examine_work};
use crate::gateway::OfferedWork;
use crate::site::clock::{self, Clock};
use crate::site::datasets::note_registered;
use crate::site::jobs::{self, DecisionOrigin, RunOutcome};
use crate::site::ledger::{Ledger, ReleaseContext};
use crate::site::policy::LifetimeLimit;
use crate::site::{books, standing};

/// The reason of a refusal at the terminal.
const REFUSAL: &str = "not this one";

/// Returns the template, with automatic approval up to `total`; without one, up to the budget.
fn automatic_policy(total: Option<f64>) -> String {
    let line = total.map_or_else(String::new, |total| format!("most_epsilon_automatic = {total:?}\n"));
    let text = TEMPLATE
        .replace("approval = \"steward\"", "approval = \"automatic\"")
        .replace("most_epsilon_automatic = 4.0\n", &line);
    assert_eq!(text.contains("\nmost_epsilon_automatic"), total.is_some());
    text
}

/// Makes the fixtures' job under another id.
fn make_job(number: u128) -> Manifest {
    Manifest { job: JobId(Uuid::from_u128(0x5a00 + number)), ..honest_manifest(spec(), Visibility::Private) }
}

/// Returns the least total, in steps of 1/16, that admits exactly this number of the fixtures' jobs.
fn least_total(jobs: u64) -> f64 {
    let charge = make_job(0).participants[1].charge.clone().expect("it pays");
    let count_jobs = |sixteenths: u32| {
        let epsilon = Epsilon::new(f64::from(sixteenths) / 16.0).expect("a finite number");
        let limit =
            LifetimeLimit { epsilon, delta: Delta::new(1e-6).expect("a probability"), filter: FilterKind::Renyi };
        let Ok(budget) = limit.budget(None) else { return 0 };
        let balance = Balance::new(Some(budget));
        let cost = balance.price(&charge.event, charge.adjacency).expect("it has a price");
        balance.headroom().releases(&cost) / charge.releases
    };
    let least = (1..=128).find(|sixteenths| count_jobs(*sixteenths) >= jobs).expect("some total holds them");
    assert_eq!(count_jobs(least), jobs, "a step of 1/16 is finer than a job");
    f64::from(least) / 16.0
}

fn open_registered(place: &TestSite, clock: Clock) -> Arc<Site> {
    let site = Arc::new(Site::open(place.folder(), &place.config, clock).expect("no other process has it"));
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

fn make_work(manifest: &Manifest) -> OfferedWork {
    OfferedWork {
        manifest: sign(manifest),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward named by the server".to_owned()),
        approval: None,
    }
}

/// Proposes a job; returns whether the policy approved it.
fn propose(site: &Site, manifest: &Manifest) -> bool {
    consider(site, &sign(manifest), OURS).expect("the disk works");
    let pending = pending_decisions(site).expect("the disk works");
    pending.iter().any(|(stored, _)| stored.decision.job == manifest.job && stored.decision.approve)
}

/// Offers a job; returns whether it may run at once instead of waiting for the terminal.
fn may_run(site: &Site, manifest: &Manifest) -> bool {
    match examine_work(site, &make_work(manifest), manifest.job).expect("the disk works") {
        WorkExamination::Ready(_) => true,
        WorkExamination::Waiting(_) => false,
        WorkExamination::Refused(reason) => panic!("{reason}"),
        WorkExamination::Ended(_) | WorkExamination::Foreign(_) => panic!("it is an honest job that never ran"),
    }
}

fn make_decision(site: &Site, manifest: &Manifest, approve: bool) -> SiteDecision {
    SiteDecision {
        manifest: sign(manifest).digest(),
        job: manifest.job,
        dataset: OURS,
        approve,
        reason: if approve { String::new() } else { REFUSAL.to_owned() },
        terms: PartyTerms::default(),
        at: (site.clock)(),
    }
}

/// Approves a job at the terminal.
fn approve(site: &Site, manifest: &Manifest) {
    jobs::decide(&site.store, &make_decision(site, manifest, true), DecisionOrigin::Terminal).expect("it is open");
}

/// Offers a job that is within the total, and begins it: it has its reservation.
fn begin_job(site: &Site, manifest: &Manifest) -> ReleaseContext {
    let WorkExamination::Ready(examined) =
        examine_work(site, &make_work(manifest), manifest.job).expect("the disk works")
    else {
        panic!("it is within the total")
    };
    assert_eq!(begin_part(site, &make_work(manifest), &examined, "lease").expect("the disk works"), None);
    examined.release_context().expect("it pays")
}

/// Pays for ten of the twelve releases of a job.
fn pay(ledger: &Ledger, under: &ReleaseContext) {
    for round in 1..=10 {
        ledger
            .commit(under, &under.charge.event, &crate::fixture::stored_release(under, "private", round))
            .map(drop)
            .expect("it is reserved");
    }
}

/// Returns the number of decisions about a job.
fn count_decisions(site: &Site, manifest: &Manifest) -> i64 {
    site.store
        .read(|db| {
            db.query_row("SELECT count(*) FROM decision WHERE job = ?1", [manifest.job.to_string()], |row| row.get(0))
                .map_err(|error| StoreError::Row(error.to_string()))
        })
        .expect("it is open")
}

/// Makes a clock that shows the second it is set to.
fn test_clock(at: OffsetDateTime) -> (Arc<AtomicI64>, Clock) {
    let time = Arc::new(AtomicI64::new(at.unix_timestamp()));
    let shared = Arc::clone(&time);
    let moment = move || OffsetDateTime::from_unix_timestamp(shared.load(Ordering::SeqCst)).expect("within range");
    (time, Arc::new(moment))
}

fn with_issue_date(at: OffsetDateTime, manifest: Manifest) -> Manifest {
    let limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, at));
    Manifest { issued_at: at, limits, ..manifest }
}

fn give_up() -> RunOutcome {
    RunOutcome::GaveUp { reason: "no data".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_are_approved_up_to_the_total() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(2))));
    let site = open_registered(&place, clock::system());
    assert!(propose(&site, &make_job(1)) && propose(&site, &make_job(2)));
    assert!(!propose(&site, &make_job(3)), "it exceeds the total, and is not refused either");
    assert!(may_run(&site, &make_job(1)) && may_run(&site, &make_job(2)), "an approved job stays approved");
    assert!(!may_run(&site, &make_job(3)));
    approve(&site, &make_job(3));
    assert!(may_run(&site, &make_job(3)));
    assert!(!may_run(&site, &make_job(4)), "an approval at the terminal does not extend the total");
    std::fs::write(place.folder().policy(), automatic_policy(Some(least_total(3)))).expect("the folder is writable");
    assert!(may_run(&site, &make_job(4)), "more is allowed at once, and the person's job is no part of it");
    assert!(!may_run(&site, &make_job(5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_without_a_proposal_counts_toward_the_total() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(1))));
    let site = open_registered(&place, clock::system());
    assert!(may_run(&site, &make_job(1)));
    assert!(!may_run(&site, &make_job(2)) && !propose(&site, &make_job(3)));
    assert!(may_run(&site, &make_job(1)), "a repeated offer counts once");
    assert!(pending_decisions(&site).expect("the disk works").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_job_counts_its_releases() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(1))));
    let site = open_registered(&place, clock::system());
    let first = make_job(1);
    pay(&site.ledger, &begin_job(&site, &first));
    close_part(&site, first.job, OURS, &give_up()).expect("the disk works");
    decisions::refuse(&site, &sign(&first), first.job, OURS, "it is over").expect("the disk works");
    assert!(!may_run(&site, &make_job(2)), "ten of twelve releases are spent, and twelve more would be too many");
    // A job without releases uses none of the total.
    std::fs::write(place.folder().policy(), automatic_policy(Some(least_total(2)))).expect("the folder is writable");
    let second = make_job(2);
    begin_job(&site, &second);
    assert!(!may_run(&site, &make_job(3)));
    close_part(&site, second.job, OURS, &give_up()).expect("the disk works");
    assert!(may_run(&site, &make_job(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_job_without_reservation_counts_nothing() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(1))));
    let first = make_job(1);
    let until = first.limits.as_ref().expect("an honest manifest has limits").not_after;
    let (time, clock) = test_clock(first.issued_at);
    let site = open_registered(&place, clock);
    assert!(propose(&site, &first));
    let later = with_issue_date(until, make_job(2));
    time.store(until.unix_timestamp(), Ordering::SeqCst);
    assert!(!propose(&site, &later), "the first one holds until the end of its last second");
    time.store((until + Duration::SECOND).unix_timestamp(), Ordering::SeqCst);
    assert!(may_run(&site, &later));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_jobs_stay_within_the_total() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(2))));
    let site = open_registered(&place, clock::system());
    let count = run_blocking(move || {
        std::thread::scope(|scope| {
            let site = &site;
            let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || may_run(site, &make_job(number)))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("it does not panic"))
                .filter(|may_run| *may_run)
                .count()
        })
    })
    .await;
    assert_eq!(count, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_total_the_budget_alone_bounds_jobs() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(None));
    let site = open_registered(&place, clock::system());
    assert!((1..20).all(|number| propose(&site, &make_job(number)) && may_run(&site, &make_job(number))));
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_release_is_within_no_total() {
    let server = start(false).await;
    for (total, runs) in [(Some(1000.0), false), (None, true)] {
        let place = TestSite::new(&server, &format!("{}{OPEN}", automatic_policy(total)));
        let site = open_registered(&place, clock::system());
        assert_eq!(may_run(&site, &make_open_job()), runs, "{total:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_at_the_terminal_precedes_the_policy() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(None));
    let site = open_registered(&place, clock::system());
    let first = make_job(1);
    let approval = make_decision(&site, &first, true);
    jobs::decide(&site.store, &make_decision(&site, &first, false), DecisionOrigin::Terminal).expect("it is open");
    // The policy decided before the terminal, and its approval arrives after it.
    assert!(
        !jobs::note(&site.store, &approval).expect("it is open")
            && !jobs::approve(&site.store, &approval).expect("it is open")
    );
    let last =
        jobs::decision(&site.store, first.job, OURS, &approval.manifest).expect("it is open").expect("the terminal's");
    assert_eq!((last.by.as_str(), last.decision.approve), (DecisionOrigin::Terminal.word(), false));
    for is_stored in [false, true] {
        if is_stored {
            // An earlier worker may have stored this.
            jobs::decide(&site.store, &approval, DecisionOrigin::Policy).expect("it is open");
        }
        let WorkExamination::Refused(reason) =
            examine_work(&site, &make_work(&first), first.job).expect("the disk works")
        else {
            panic!("the terminal refused it")
        };
        assert_eq!(reason, REFUSAL);
        let signed = sign(&first);
        assert!(decisions::is_terminal_refusal(&site, &signed, first.job, OURS, REFUSAL).expect("it is open"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn job_begun_without_a_total_counts_toward_a_later_one() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(None));
    let site = open_registered(&place, clock::system());
    begin_job(&site, &make_job(1));
    std::fs::write(place.folder().policy(), automatic_policy(Some(least_total(1)))).expect("the folder is writable");
    assert!(may_run(&site, &make_job(1)) && !may_run(&site, &make_job(2)));
    assert!(pending_decisions(&site).expect("the disk works").is_empty(), "no decision waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_job_counts_until_the_terminal_approves_it() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(1))));
    let first = make_job(1);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let copy = Folder::new(dir.path());
    std::fs::copy(place.folder().key(), copy.key()).expect("the folder is writable");
    let under = ReleaseContext {
        job: first.job,
        dataset: OURS,
        lineage: LINEAGE,
        manifest: sign(&first).digest(),
        charge: first.participants[1].charge.clone().expect("it pays"),
    };
    let other_ledger = crate::fixture::ledger_at(&copy);
    other_ledger.reserve(&under, &crate::fixture::limit(8.0)).expect("there is room");
    pay(&other_ledger, &under);
    drop(other_ledger);
    let receipts = Store::create(&copy.ledger()).expect("it is there").read(books::receipts).expect("it is open");
    let site = open_registered(&place, clock::system());
    let summary = site.ledger.import(&receipts, Some(crate::fixture::limit(8.0))).expect("they are this site's own");
    assert_eq!((summary.before, summary.missing), (0, 10));
    assert!(!may_run(&site, &make_job(2)), "ten of twelve releases are spent, and twelve more would be too many");
    // A repeated manifest of the server frees nothing.
    assert!(matches!(
        examine_work(&site, &make_work(&first), first.job).expect("the disk works"),
        WorkExamination::Refused(_)
    ));
    assert!(
        jobs::first_manifest(&site.store, first.job).expect("it is open").is_some() && !may_run(&site, &make_job(2))
    );
    approve(&site, &first);
    assert!(may_run(&site, &make_job(2)), "the terminal approved it");
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_job_waits_when_its_series_becomes_exact() {
    let server = start(false).await;
    let private = automatic_policy(Some(least_total(1)));
    let place = TestSite::new(&server, &private);
    let site = open_registered(&place, clock::system());
    let both = make_open_job();
    begin_job(&site, &both);
    assert!(may_run(&site, &both));
    std::fs::write(place.folder().policy(), format!("{private}{OPEN}")).expect("the folder is writable");
    assert!(!may_run(&site, &both), "its open series releases something now");
}

#[tokio::test(flavor = "multi_thread")]
async fn job_that_ends_during_the_count_counts_its_releases() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(1))));
    let site = open_registered(&place, clock::system());
    let first = make_job(1);
    let WorkExamination::Ready(examined) = examine_work(&site, &make_work(&first), first.job).expect("the disk works")
    else {
        panic!("it is within the total")
    };
    let second = make_job(2);
    let WorkExamination::Waiting(waiting) =
        examine_work(&site, &make_work(&second), second.job).expect("the disk works")
    else {
        panic!("it is beyond the total")
    };
    let rules = site.policy().expect("it can be read").rules("ward-7");
    let is_within = standing::may_approve(&site.store, &rules, &waiting, false, (site.clock)(), || {
        assert_eq!(begin_part(&site, &make_work(&first), &examined, "lease").expect("the disk works"), None);
        pay(&site.ledger, &examined.release_context().expect("it pays"));
        close_part(&site, first.job, OURS, &give_up())?;
        site.ledger.books()
    });
    assert!(!is_within.expect("the disk works"), "ten of twelve releases are spent, and twelve more would be too many");
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_under_a_wrong_clock_stay_within_the_total() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(1))));
    let first = make_job(1);
    let until = first.limits.as_ref().expect("an honest manifest has limits").not_after;
    let (time, clock) = test_clock(first.issued_at);
    let site = open_registered(&place, clock);
    assert!(propose(&site, &first));
    time.store((until + Duration::SECOND).unix_timestamp(), Ordering::SeqCst);
    let later = with_issue_date(until, make_job(2));
    assert!(may_run(&site, &later), "the first one is over, says the clock");
    time.store(first.issued_at.unix_timestamp(), Ordering::SeqCst);
    assert!(!may_run(&site, &first), "the second one took its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_job_continues_and_approved_job_is_judged_again() {
    let server = start(false).await;
    let place = TestSite::new(&server, &automatic_policy(Some(least_total(2))));
    let site = open_registered(&place, clock::system());
    begin_job(&site, &make_job(1));
    assert!(may_run(&site, &make_job(2)));
    std::fs::write(place.folder().policy(), automatic_policy(Some(least_total(1)))).expect("the folder is writable");
    assert!(may_run(&site, &make_job(1)) && !may_run(&site, &make_job(2)));
    assert_eq!(count_decisions(&site, &make_job(1)), 1, "a repeated offer is recorded once");
}
