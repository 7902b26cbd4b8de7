//! Automatic approvals stay within their total, for any order of jobs.

use std::sync::atomic::{AtomicI64, Ordering};

use time::{Duration, OffsetDateTime};
use undertone_api::id::JobId;
use undertone_api::signed::JobLimits;
use undertone_privacy::ledger::Balance;
use undertone_privacy::{Delta, Epsilon};
use uuid::Uuid;

use super::*;
use crate::daemon::desk::{self, consider, untold};
use crate::daemon::part::{Look, close, look, take_up};
use crate::gateway::Work;
use crate::site::clock::{self, Clock};
use crate::site::datasets::note_registered;
use crate::site::jobs::{self, DecisionOrigin, RunOutcome};
use crate::site::ledger::{Ledger, ReleaseContext};
use crate::site::policy::LifetimeLimit;
use crate::site::{books, standing};

/// The reason of a refusal at the terminal.
const NO: &str = "not this one";

/// Returns the template, with automatic approval up to `total`; without one, up to the budget.
fn automatic(total: Option<f64>) -> String {
    let line = total.map_or_else(String::new, |total| format!("most_epsilon_automatic = {total:?}\n"));
    let text = TEMPLATE
        .replace("approval = \"steward\"", "approval = \"automatic\"")
        .replace("most_epsilon_automatic = 4.0\n", &line);
    assert_eq!(text.contains("\nmost_epsilon_automatic"), total.is_some());
    text
}

/// Makes the fixtures' job under another id.
fn job(number: u128) -> Manifest {
    Manifest { job: JobId(Uuid::from_u128(0x5a00 + number)), ..honest(spec(), Visibility::Private) }
}

/// Returns the least total, in steps of 1/16, that admits exactly this number of the fixtures' jobs.
fn total(jobs: u64) -> f64 {
    let charge = job(0).participants[1].charge.clone().expect("it pays");
    let fitting = |sixteenths: u32| {
        let epsilon = Epsilon::new(f64::from(sixteenths) / 16.0).expect("a finite number");
        let limit = LifetimeLimit { epsilon, delta: Delta::new(1e-6).expect("a probability") };
        let Ok(budget) = limit.budget(None) else { return 0 };
        let balance = Balance::new(Some(budget));
        let cost = balance.price(&charge.event, charge.adjacency).expect("it has a price");
        balance.headroom().releases(&cost) / charge.releases
    };
    let least = (1..=128).find(|sixteenths| fitting(*sixteenths) >= jobs).expect("some total holds them");
    assert_eq!(fitting(least), jobs, "a step of 1/16 is finer than a job");
    f64::from(least) / 16.0
}

fn known(place: &Place, clock: Clock) -> Arc<Site> {
    let site = Arc::new(Site::open(place.folder(), &place.config, clock).expect("nobody else has it"));
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    site
}

fn offered(manifest: &Manifest) -> Work {
    Work {
        manifest: sign(manifest),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: Some("a steward, says the server".to_owned()),
        approval: None,
    }
}

/// Proposes a job; returns whether the policy approved it.
fn proposed(site: &Site, manifest: &Manifest) -> bool {
    consider(site, &sign(manifest), OURS).expect("the disk works");
    let said = untold(site).expect("the disk works");
    said.iter().any(|(said, _)| said.decision.job == manifest.job && said.decision.approve)
}

/// Offers a job; returns whether it may run at once instead of waiting for the terminal.
fn goes(site: &Site, manifest: &Manifest) -> bool {
    match look(site, &offered(manifest), manifest.job).expect("the disk works") {
        Look::Go(_) => true,
        Look::Waits(_) => false,
        Look::Refused(reason) => panic!("{reason}"),
        Look::Ended(_) | Look::Alien(_) => panic!("it is an honest job that never ran"),
    }
}

fn word(site: &Site, manifest: &Manifest, approve: bool) -> SiteDecision {
    SiteDecision {
        manifest: sign(manifest).digest(),
        job: manifest.job,
        dataset: OURS,
        approve,
        reason: if approve { String::new() } else { NO.to_owned() },
        at: (site.clock)(),
    }
}

/// Approves a job at the terminal.
fn approve(site: &Site, manifest: &Manifest) {
    jobs::decide(&site.store, &word(site, manifest, true), DecisionOrigin::Terminal).expect("it is open");
}

/// Offers a job that is within the total, and begins it: it has its reservation.
fn begun(site: &Site, manifest: &Manifest) -> ReleaseContext {
    let Look::Go(examined) = look(site, &offered(manifest), manifest.job).expect("the disk works") else {
        panic!("it is within the total")
    };
    assert_eq!(take_up(site, &offered(manifest), &examined, "lease").expect("the disk works"), None);
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
fn noted(site: &Site, manifest: &Manifest) -> i64 {
    site.store
        .read(|db| {
            db.query_row("SELECT count(*) FROM decision WHERE job = ?1", [manifest.job.to_string()], |row| row.get(0))
                .map_err(|error| StoreError::Row(error.to_string()))
        })
        .expect("it is open")
}

/// Makes a clock that shows the second it is set to.
fn hands(at: OffsetDateTime) -> (Arc<AtomicI64>, Clock) {
    let time = Arc::new(AtomicI64::new(at.unix_timestamp()));
    let hands = Arc::clone(&time);
    let moment = move || OffsetDateTime::from_unix_timestamp(hands.load(Ordering::SeqCst)).expect("within range");
    (time, Arc::new(moment))
}

fn issued(at: OffsetDateTime, manifest: Manifest) -> Manifest {
    let limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, at));
    Manifest { issued_at: at, limits, ..manifest }
}

fn gave_up() -> RunOutcome {
    RunOutcome::GaveUp { reason: "no data".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_are_approved_up_to_the_total_and_one_more_waits_for_the_terminal() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(2))));
    let site = known(&place, clock::system());
    assert!(proposed(&site, &job(1)) && proposed(&site, &job(2)));
    assert!(!proposed(&site, &job(3)), "it is beyond the total, and no refusal either");
    assert!(goes(&site, &job(1)) && goes(&site, &job(2)), "what was approved stays so");
    assert!(!goes(&site, &job(3)));
    approve(&site, &job(3));
    assert!(goes(&site, &job(3)));
    assert!(!goes(&site, &job(4)), "what a person approves makes no room");
    std::fs::write(place.folder().policy(), automatic(Some(total(3)))).expect("the folder is writable");
    assert!(goes(&site, &job(4)), "more is allowed at once, and the person's job is no part of it");
    assert!(!goes(&site, &job(5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_was_never_proposed_counts_like_any_other_and_the_server_is_told_nothing() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(1))));
    let site = known(&place, clock::system());
    assert!(goes(&site, &job(1)));
    assert!(!goes(&site, &job(2)) && !proposed(&site, &job(3)));
    assert!(goes(&site, &job(1)), "asked again it counts once");
    assert!(untold(&site).expect("the disk works").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_over_counts_what_it_released_whatever_was_said_of_it_later() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(1))));
    let site = known(&place, clock::system());
    let first = job(1);
    pay(&site.ledger, &begun(&site, &first));
    close(&site, first.job, OURS, &gave_up()).expect("the disk works");
    desk::refuse(&site, &sign(&first), first.job, OURS, "it is over").expect("the disk works");
    assert!(!goes(&site, &job(2)), "ten of twelve releases are spent, and twelve more would be too many");
    // A job without releases uses none of the total.
    std::fs::write(place.folder().policy(), automatic(Some(total(2)))).expect("the folder is writable");
    let second = job(2);
    begun(&site, &second);
    assert!(!goes(&site, &job(3)));
    close(&site, second.job, OURS, &gave_up()).expect("the disk works");
    assert!(goes(&site, &job(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_manifest_ended_before_it_reserved_counts_nothing() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(1))));
    let first = job(1);
    let until = first.limits.as_ref().expect("an honest manifest has limits").not_after;
    let (time, clock) = hands(first.issued_at);
    let site = known(&place, clock);
    assert!(proposed(&site, &first));
    let later = issued(until, job(2));
    time.store(until.unix_timestamp(), Ordering::SeqCst);
    assert!(!proposed(&site, &later), "the first one holds until the end of its last second");
    time.store((until + Duration::SECOND).unix_timestamp(), Ordering::SeqCst);
    assert!(goes(&site, &later));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_jobs_that_come_at_once_no_more_run_than_the_total_holds() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(2))));
    let site = known(&place, clock::system());
    let run = beside(move || {
        std::thread::scope(|scope| {
            let site = &site;
            let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || goes(site, &job(number)))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).filter(|goes| *goes).count()
        })
    })
    .await;
    assert_eq!(run, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_total_the_budget_alone_bounds_jobs() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(None));
    let site = known(&place, clock::system());
    assert!((1..20).all(|number| proposed(&site, &job(number)) && goes(&site, &job(number))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_in_the_clear_is_within_no_total() {
    let server = start(false).await;
    for (total, runs) in [(Some(1000.0), false), (None, true)] {
        let place = Place::new(&server, &format!("{}{OPEN}", automatic(total)));
        let site = known(&place, clock::system());
        assert_eq!(goes(&site, &open_job()), runs, "{total:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_at_the_terminal_stands_whatever_the_policy_says_beside_it() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(None));
    let site = known(&place, clock::system());
    let first = job(1);
    let yes = word(&site, &first, true);
    jobs::decide(&site.store, &word(&site, &first, false), DecisionOrigin::Terminal).expect("it is open");
    // The policy decided before the terminal, and its approval arrives after it.
    assert!(
        !jobs::note(&site.store, &yes).expect("it is open") && !jobs::approve(&site.store, &yes).expect("it is open")
    );
    let last =
        jobs::decision(&site.store, first.job, OURS, &yes.manifest).expect("it is open").expect("the terminal's");
    assert_eq!((last.by.as_str(), last.decision.approve), (DecisionOrigin::Terminal.word(), false));
    for after in [false, true] {
        if after {
            // An earlier worker may have stored this.
            jobs::decide(&site.store, &yes, DecisionOrigin::Policy).expect("it is open");
        }
        let Look::Refused(reason) = look(&site, &offered(&first), first.job).expect("the disk works") else {
            panic!("somebody said no")
        };
        assert_eq!(reason, NO);
        let signed = sign(&first);
        assert!(desk::refused_at_terminal(&site, &signed, first.job, OURS, NO).expect("it is open"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_before_there_was_a_total_counts_too() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(None));
    let site = known(&place, clock::system());
    begun(&site, &job(1));
    std::fs::write(place.folder().policy(), automatic(Some(total(1)))).expect("the folder is writable");
    assert!(goes(&site, &job(1)) && !goes(&site, &job(2)));
    assert!(untold(&site).expect("the disk works").is_empty(), "nobody waits to be told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_only_its_receipts_tell_of_counts_until_somebody_at_the_terminal_says_yes_to_it() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(1))));
    let first = job(1);
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
    let elsewhere = crate::fixture::ledger_at(&copy);
    elsewhere.reserve(&under, &crate::fixture::limit(8.0)).expect("there is room");
    pay(&elsewhere, &under);
    drop(elsewhere);
    let receipts = Store::create(&copy.ledger()).expect("it is there").read(books::receipts).expect("it is open");
    let site = known(&place, clock::system());
    let imported = site.ledger.import(&receipts, Some(crate::fixture::limit(8.0))).expect("they are this site's own");
    assert_eq!((imported.before, imported.missing), (0, 10));
    assert!(!goes(&site, &job(2)), "ten of twelve releases are spent, and twelve more would be too many");
    // A repeated manifest of the server frees nothing.
    assert!(matches!(look(&site, &offered(&first), first.job).expect("the disk works"), Look::Refused(_)));
    assert!(jobs::first_manifest(&site.store, first.job).expect("it is open").is_some() && !goes(&site, &job(2)));
    approve(&site, &first);
    assert!(goes(&site, &job(2)), "it is known who said yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_waits_once_it_would_leave_in_the_clear() {
    let server = start(false).await;
    let private = automatic(Some(total(1)));
    let place = Place::new(&server, &private);
    let site = known(&place, clock::system());
    let both = open_job();
    begun(&site, &both);
    assert!(goes(&site, &both));
    std::fs::write(place.folder().policy(), format!("{private}{OPEN}")).expect("the folder is writable");
    assert!(!goes(&site, &both), "its open series releases something now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_begins_and_ends_while_the_policy_counts_is_counted_with_what_it_released() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(1))));
    let site = known(&place, clock::system());
    let first = job(1);
    let Look::Go(examined) = look(&site, &offered(&first), first.job).expect("the disk works") else {
        panic!("it is within the total")
    };
    let second = job(2);
    let Look::Waits(waiting) = look(&site, &offered(&second), second.job).expect("the disk works") else {
        panic!("it is beyond the total")
    };
    let rules = site.policy().expect("it can be read").rules("ward-7");
    let within = standing::may_approve(&site.store, &rules, &waiting, false, (site.clock)(), || {
        assert_eq!(take_up(&site, &offered(&first), &examined, "lease").expect("the disk works"), None);
        pay(&site.ledger, &examined.release_context().expect("it pays"));
        close(&site, first.job, OURS, &gave_up())?;
        site.ledger.books()
    });
    assert!(!within.expect("the disk works"), "ten of twelve releases are spent, and twelve more would be too many");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_jobs_approved_while_the_clock_went_wrong_none_goes_beyond_the_total() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(1))));
    let first = job(1);
    let until = first.limits.as_ref().expect("an honest manifest has limits").not_after;
    let (time, clock) = hands(first.issued_at);
    let site = known(&place, clock);
    assert!(proposed(&site, &first));
    time.store((until + Duration::SECOND).unix_timestamp(), Ordering::SeqCst);
    let later = issued(until, job(2));
    assert!(goes(&site, &later), "the first one is over, says the clock");
    time.store(first.issued_at.unix_timestamp(), Ordering::SeqCst);
    assert!(!goes(&site, &first), "the second one took its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_its_reservation_goes_on_and_what_was_only_approved_is_asked_again() {
    let server = start(false).await;
    let place = Place::new(&server, &automatic(Some(total(2))));
    let site = known(&place, clock::system());
    begun(&site, &job(1));
    assert!(goes(&site, &job(2)));
    std::fs::write(place.folder().policy(), automatic(Some(total(1)))).expect("the folder is writable");
    assert!(goes(&site, &job(1)) && !goes(&site, &job(2)));
    assert_eq!(noted(&site, &job(1)), 1, "asked again it is noted once");
}
