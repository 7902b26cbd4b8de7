//! Release times follow a clock that depends on nothing private. The tests control the time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use undertone_privacy::{PrivacyUnit, SamplingRate};

use super::*;
use crate::daemon::decisions;
use crate::daemon::release_clock::fake::FakeTimeline;
use crate::daemon::release_clock::{ClockRecord, ReleaseTimeline, USUAL};
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::sampler::Sampler;
use crate::fixture::z;

const PERIOD: Duration = Duration::from_secs(2);

/// Returns the template, with a release clock that ticks every two seconds.
fn clock_policy() -> String {
    let line = "# release_period_seconds = { dp_sgd = 2.0, active_learning = 60.0, transcription = 3600.0 }";
    assert!(TEMPLATE.contains(line));
    TEMPLATE.replace(line, "release_period_seconds = { dp_sgd = 2.0 }")
}

/// Opens the site at a place, with a time that the test controls.
fn open_with_timeline(place: &TestSite) -> (Arc<Site>, Arc<FakeTimeline>) {
    let timeline = Arc::new(FakeTimeline::default());
    let mut site =
        Site::open(place.folder(), &place.config, crate::site::clock::system()).expect("no other process has it");
    site.timeline = Arc::clone(&timeline) as Arc<dyn ReleaseTimeline>;
    (Arc::new(site), timeline)
}

/// Makes a release as the run does, after a computation of this duration.
fn compute(exchange: &mut SiteExchange, timeline: &FakeTimeline, round: u32, time: Duration) -> Outgoing {
    let batch = Sampler::new(48, SamplingRate::new(0.125).expect("a probability")).draw_fresh();
    let sum = ClippedSum::begin(&batch, Clip::new(1.0, z(4.0)).expect("in range"), 3);
    timeline.pass(time);
    let clearance = exchange.clear(RoundKey::new("private", round)).expect("it is reserved");
    sum.release(6.0, clearance, &Randomness::from_os(Purpose::Noise)).expect("it is allowed").into()
}

/// Returns the times at which a job's vectors leave, for these computation times.
async fn send_times(policy: &str, computations: [Duration; 4]) -> (Vec<Duration>, Option<ClockRecord>) {
    let server = start(false).await;
    let place = TestSite::new(&server, policy);
    let (site, timeline) = open_with_timeline(&place);
    let mut exchange = open_exchange(&site, &honest_manifest(spec(), Visibility::Private), Visibility::Private);
    run_blocking(move || {
        exchange.fix_period(&mut || Ok(Duration::from_millis(1_234))).expect("the rounds are open long enough");
        let mut times = Vec::new();
        for (round, time) in (1..).zip(computations) {
            assert!(!exchange.is_closed(RoundKey::new("private", round)).expect("the server answers"));
            let vector = compute(&mut exchange, &timeline, round, time);
            exchange.send_vector(RoundKey::new("private", round), vector).expect("the server takes it");
            times.push(timeline.now());
        }
        (times, ClockRecord::load(exchange.folder()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn private_vectors_leave_at_the_same_times_for_any_draw() {
    let ms = Duration::from_millis;
    let (few_units, record) = send_times(&clock_policy(), [ms(1), ms(3), ms(2), ms(1)]).await;
    let (many_units, _) = send_times(&clock_policy(), [ms(2_000), ms(1_500), ms(1), ms(900)]).await;
    assert_eq!(few_units, many_units);
    assert_eq!(few_units, [1, 2, 3, 4].map(|tick| tick * PERIOD));
    assert_eq!(record.map(|record| record.period_millis), Some(2_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn late_release_leaves_at_the_next_tick_and_is_counted() {
    let ms = Duration::from_millis;
    let (times, record) = send_times(&clock_policy(), [ms(2_001), ms(1), ms(6_500), ms(1)]).await;
    assert_eq!(times, [2, 3, 7, 8].map(|tick| tick * PERIOD));
    assert_eq!(record, Some(ClockRecord { period_millis: 2_000, releases: 3, late: 2 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn period_without_a_policy_is_the_measured_one() {
    let (times, record) = send_times(TEMPLATE, [Duration::from_millis(10); 4]).await;
    let period = Duration::from_millis(record.expect("it is stored").period_millis);
    // The disk's time is added to the measured time.
    assert!(period >= Duration::from_millis(1_234), "{period:?}");
    assert_eq!(times, [1, 2, 3, 4].map(|tick| tick * period));
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_vectors_do_not_wait() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{}{OPEN}", clock_policy()));
    let (site, timeline) = open_with_timeline(&place);
    let mut exchange = open_exchange(&site, &make_open_job(), Visibility::Open);
    run_blocking(move || {
        exchange.fix_period(&mut || Ok(Duration::ZERO)).expect("the rounds are open long enough");
        let clearance = exchange.clear(RoundKey::new("open", 1)).expect("the policy says open");
        let vector = Outgoing::exact(vec![1.0], clearance).expect("it was published");
        exchange.send_vector(RoundKey::new("open", 1), vector).expect("the server takes it");
        assert_eq!(timeline.now(), Duration::ZERO);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_paid_before_the_tick() {
    let server = start(false).await;
    let place = TestSite::new(&server, &clock_policy());
    let (site, timeline) = open_with_timeline(&place);
    let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
    let manifest = honest_manifest(spec(), Visibility::Private);
    let mut exchange = open_leased_exchange(&lease, &site, &manifest, Visibility::Private);
    let stop = lease.stop.clone();
    run_blocking(move || {
        exchange.fix_period(&mut || Ok(Duration::ZERO)).expect("the rounds are open long enough");
        let vector = compute(&mut exchange, &timeline, 1, Duration::from_millis(5));
        // The job ends while the release waits for its tick.
        stop.cancel();
        assert!(matches!(exchange.send_vector(RoundKey::new("private", 1), vector), Err(RunError::Stopped(_))));
    })
    .await;
    assert_eq!(
        super::fault::count_paid(&site),
        0,
        "a payment has a date and a number, which would reveal the time of the computation"
    );
    assert!(server.state.lock().expect("no test panicked").vectors.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_an_earlier_process_leave_at_a_tick_of_the_next() {
    let server = start(false).await;
    let place = TestSite::new(&server, &clock_policy());
    let (site, timeline) = open_with_timeline(&place);
    let manifest = honest_manifest(spec(), Visibility::Private);
    let lease = Arc::new(Lease::new("lease".to_owned(), CancellationToken::new()));
    let mut first = open_leased_exchange(&lease, &site, &manifest, Visibility::Private);
    let stop = lease.stop.clone();
    run_blocking(move || {
        first.fix_period(&mut || Ok(Duration::ZERO)).expect("the rounds are open long enough");
        let vector = compute(&mut first, &timeline, 1, Duration::from_millis(5));
        stop.cancel();
        drop(first.send_vector(RoundKey::new("private", 1), vector));
    })
    .await;
    drop(site);
    let (site, timeline) = open_with_timeline(&place);
    timeline.pass(Duration::from_millis(300));
    let mut second = open_exchange(&site, &manifest, Visibility::Private);
    run_blocking(move || {
        second.fix_period(&mut || Ok(Duration::from_secs(40))).expect("the first process fixed the period");
        assert_eq!(second.round_progress(RoundKey::new("private", 1)).expect("the disk works"), RoundProgress::Stored);
        second.resend_vector(RoundKey::new("private", 1)).expect("the server takes it");
        assert_eq!(timeline.now(), Duration::from_millis(300) + PERIOD);
    })
    .await;
    assert_eq!(super::fault::count_paid(&site), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_whose_rounds_close_before_the_first_tick_is_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let (site, _) = open_with_timeline(&place);
    let mut exchange = open_exchange(&site, &honest_manifest(spec(), Visibility::Private), Visibility::Private);
    run_blocking(move || {
        let answer = exchange.fix_period(&mut || Ok(Duration::from_mins(1)));
        let Err(RunError::Refused(problem)) = answer else { panic!("{answer:?}") };
        let reason = problem.to_string();
        assert!(
            reason.contains("closes its rounds after 60 s") && reason.contains("release_period_seconds"),
            "{reason}"
        );
        let answer = exchange.fix_period(&mut || Ok(Duration::from_secs(100_000)));
        let Err(RunError::Refused(problem)) = answer else { panic!("{answer:?}") };
        assert!(problem.to_string().contains("longest_unit_seconds"), "{problem}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn length_of_units_is_the_policys() {
    let server = start(false).await;
    let special = "\n[datasets.\"ward-7\"]\nlongest_unit_seconds = { speaker = 12.5 }\n";
    let place = TestSite::new(&server, &format!("{TEMPLATE}{special}"));
    let (site, _) = open_with_timeline(&place);
    let private = open_exchange(&site, &honest_manifest(spec(), Visibility::Private), Visibility::Private);
    assert_eq!(private.longest_unit(PrivacyUnit::Speaker), Some(1_250));
    assert_eq!(private.longest_unit(PrivacyUnit::Record), Some(6_000));
}

/// Opens a site whose clock advances by a second at every reading.
fn open_with_running_clock(place: &TestSite) -> Arc<Site> {
    let seconds = AtomicI64::new(crate::site::clock::system()().unix_timestamp());
    let clock = move || {
        OffsetDateTime::from_unix_timestamp(seconds.fetch_add(1, Ordering::SeqCst)).expect("a moment of this era")
    };
    Arc::new(Site::open(place.folder(), &place.config, Arc::new(clock)).expect("no other process has it"))
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_of_the_policy_has_the_date_of_the_offer() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"automatic\""));
    let site = open_with_running_clock(&place);
    site.set_datasets(vec![local(Visibility::Private)]);
    let offer_time = (site.clock)();
    decisions::consider(&site, &sign(&honest_manifest(spec(), Visibility::Private)), OURS).expect("the disk works");
    let decisions = decisions::pending_decisions(&site).expect("the disk works");
    let dates: Vec<_> = decisions.iter().map(|(decided, _)| (decided.decision.approve, decided.decision.at)).collect();
    assert_eq!(dates, [(true, offer_time + time::Duration::SECOND)], "for any duration of the decision");
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_is_not_sent_before_its_tick() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"automatic\""));
    let (site, _) = open_with_timeline(&place);
    site.set_datasets(vec![local(Visibility::Private)]);
    let decisions = || server.state.lock().expect("no test panicked").decisions.len();
    {
        let _guard = site.decision_lock.lock().await;
        decisions::consider(&site, &sign(&honest_manifest(spec(), Visibility::Private)), OURS).expect("the disk works");
        decisions::send_decisions(&site).await;
        assert_eq!(decisions(), 0);
    }
    decisions::send_decisions(&site).await;
    assert_eq!(decisions(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_private_part_is_sent_at_a_tick() {
    let server = start(false).await;
    let place = TestSite::new(&server, &TEMPLATE.replace("approval = \"steward\"", "approval = \"server\""));
    let Offer::Work(work) = make_unapproved_offer() else { panic!("it is work") };
    let work = v1::Work { steward_approved: true, steward: "somebody".to_owned(), ..work };
    offer(&server, Offer::Work(work));
    let start_time = Instant::now();
    // Its dataset has a description and no content: the run fails when it opens the dataset.
    run_until(&place, &server, |state| !state.finished.is_empty()).await;
    assert!(start_time.elapsed() >= USUAL, "{:?}", start_time.elapsed());
    let state = server.state.lock().expect("no test panicked");
    assert!(matches!(state.finished[0].outcome, Some(v1::finish_request::Outcome::GaveUp(_))));
}
