//! The public release clock of one part (`privacy.md`, 14.7).
//!
//! The duration of a private computation depends on the drawn units, and the guarantee of a round requires that these
//! remain unknown. Every output after a private computation therefore leaves at `opened + j·period`, for the least j ≥
//! 1 at which it is ready. `opened` is the last moment at which the server answered before the private computation
//! began. The period is fixed before the private data are read. The server decides neither of the two: its choice of a
//! tick could otherwise test whether the computation is over by then.
//!
//! Ready means computed and durable. Payment follows the tick: a receipt has a date and a number, and other jobs'
//! messages carry it; each of the three would reveal the end of the computation. A part that ends while it waits has
//! paid nothing, and its bytes remain on disk for the next process.
//!
//! A new process opens its clock anew. On the earlier clock, bytes that were ready before a crash would leave earlier
//! than bytes that are computed after it, which would reveal the duration of the earlier computation.
//!
//! A release that is ready only after the first tick is late. With a measured period the batch is the reason with a
//! probability of at most 2⁻⁵⁰ ([`crate::dp::batch_bound`]); another reason is a machine with a higher load than during
//! the measurement. Late releases are counted and shown to the steward.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::site::folder::{FolderError, write_durably};
use crate::site::policy::ReleasePeriod;

/// The period of a part that ends before its period is known.
pub(super) const USUAL: Duration = Duration::from_secs(1);
/// The distance between the ticks of the site's own decisions, counted from the offer.
pub(super) const DECISIONS: Duration = Duration::from_millis(500);
/// The file in a part's folder with period and counts.
const FILE: &str = "release_clock.json";

/// Monotonic time and waits for it: the machine's, or a test's.
pub trait ReleaseTimeline: Send + Sync {
    /// Returns the time since the timeline began.
    fn now(&self) -> Duration;

    /// Waits until `at`.
    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's time.
#[derive(Debug)]
pub struct SystemTimeline(Instant);

impl Default for SystemTimeline {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl ReleaseTimeline for SystemTimeline {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep_until(self.0 + at))
    }
}

/// A tick of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTick {
    /// Its number, from 1.
    pub number: u64,
    /// Its time on the timeline.
    pub at: Duration,
}

impl ClockTick {
    /// Returns the first tick of a clock opened at `opened` at which a result that is ready at `ready` may leave.
    ///
    /// # Panics
    /// If the period is 0.
    pub fn first_after(opened: Duration, period: Duration, ready: Duration) -> Self {
        let elapsed = ready.saturating_sub(opened).as_nanos();
        let period = period.as_nanos();
        let number = elapsed.div_ceil(period).max(1);
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let nanos = u64::try_from(u128::from(number).saturating_mul(period)).unwrap_or(u64::MAX);
        Self { number, at: opened.saturating_add(Duration::from_nanos(nanos)) }
    }

    /// Returns whether it is later than the first one.
    pub const fn is_late(self) -> bool {
        self.number > 1
    }
}

/// The stored record of a clock, in its part's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockRecord {
    /// Milliseconds between two ticks; 0 while unknown.
    pub period_millis: u64,
    /// Releases that waited for a tick.
    pub releases: u64,
    /// Releases that left after the first tick.
    pub late: u64,
}

impl ClockRecord {
    /// Reads the record in a part's folder; `None` if there is no readable one.
    pub fn load(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
    }

    fn store(self, path: &Path) -> Result<(), FolderError> {
        let text = serde_json::to_vec(&self).unwrap_or_default();
        write_durably(path, &text)
    }

    fn period(self) -> Option<ReleasePeriod> {
        let period = Duration::from_millis(self.period_millis);
        ReleasePeriod::covering(period).filter(|known| known.as_duration() == period)
    }
}

struct ClockState {
    opened: Duration,
    period: Option<ReleasePeriod>,
    record: ClockRecord,
}

/// The release clock of one part.
pub struct ReleaseClock {
    timeline: Arc<dyn ReleaseTimeline>,
    file: PathBuf,
    state: Mutex<ClockState>,
}

impl ReleaseClock {
    /// Opens the clock of a part whose folder is `folder` now.
    pub fn open(timeline: Arc<dyn ReleaseTimeline>, folder: &Path) -> Self {
        let record = ClockRecord::load(folder).unwrap_or_default();
        let state = ClockState { opened: timeline.now(), period: None, record };
        Self { timeline, file: folder.join(FILE), state: Mutex::new(state) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the clock anew: the server has answered, and no private computation has begun since.
    pub fn reopen(&self) {
        self.state().opened = self.timeline.now();
    }

    /// Returns the period that an earlier process measured.
    pub fn measured_before(&self) -> Option<ReleasePeriod> {
        self.state().record.period()
    }

    /// Sets the period. It is on disk when this returns, so that the next process has the same one.
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses.
    pub fn set_period(&self, period: ReleasePeriod) -> Result<(), FolderError> {
        let mut state = self.state();
        state.period = Some(period);
        if state.record.period() != Some(period) {
            state.record.period_millis = period.as_millis();
            state.record.store(&self.file)?;
        }
        Ok(())
    }

    /// Returns the period; `None` before it was set.
    pub fn period(&self) -> Option<ReleasePeriod> {
        self.state().period
    }

    /// Waits for the first tick at which a result that is ready now may leave, and counts the release. Returns `None`
    /// when `stop` came first.
    pub async fn wait(&self, stop: &CancellationToken) -> Option<ClockTick> {
        let tick = self.next_tick().wait(&*self.timeline, stop).await?;
        let mut state = self.state();
        state.record.releases += 1;
        state.record.late += u64::from(tick.is_late());
        // Counts are informative only: the run continues without them.
        if tick.is_late()
            && let Err(error) = state.record.store(&self.file)
        {
            tracing::warn!(error = %error, "cannot store the counts of a release clock");
        }
        Some(tick)
    }

    /// Waits for a tick with the end of the part, which is not a release. Returns false when `stop` came first.
    pub async fn wait_with_end(&self, stop: &CancellationToken) -> bool {
        let reached = self.next_tick().wait(&*self.timeline, stop).await.is_some();
        let state = self.state();
        if state.record.releases > 0
            && let Err(error) = state.record.store(&self.file)
        {
            tracing::warn!(error = %error, "cannot store the counts of a release clock");
        }
        reached
    }

    fn next_tick(&self) -> ClockTick {
        let period = self.next_period();
        // The lock is not held across the line above: it takes the same lock.
        let opened = self.state().opened;
        ClockTick::first_after(opened, period, self.timeline.now())
    }

    /// Returns the distance between two ticks: the period, and `USUAL` before it is known.
    pub fn next_period(&self) -> Duration {
        self.period().map_or(USUAL, ReleasePeriod::as_duration)
    }

    /// Returns the counts.
    pub fn record(&self) -> ClockRecord {
        self.state().record
    }
}

impl ClockTick {
    /// Waits for the tick; returns `None` when `stop` comes first.
    pub async fn wait(self, timeline: &dyn ReleaseTimeline, stop: &CancellationToken) -> Option<Self> {
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = timeline.sleep_until(self.at) => Some(self),
        }
    }
}

#[cfg(test)]
pub(super) mod fake {
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::ReleaseTimeline;

    /// A time that advances by calls of `pass` and by waits.
    #[derive(Debug, Default)]
    pub(in crate::daemon) struct FakeTimeline(Mutex<Duration>);

    impl FakeTimeline {
        /// Advances the time by the duration of a computation.
        pub(in crate::daemon) fn pass(&self, time: Duration) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) += time;
        }
    }

    impl ReleaseTimeline for FakeTimeline {
        fn now(&self) -> Duration {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *now = (*now).max(at);
            Box::pin(ready(()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::fake::FakeTimeline;
    use super::{ClockRecord, ClockTick, ReleaseClock, ReleaseTimeline, SystemTimeline};
    use crate::site::policy::ReleasePeriod;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn period(millis: u64) -> ReleasePeriod {
        ReleasePeriod::covering(ms(millis)).unwrap()
    }

    #[test]
    fn release_leaves_at_the_first_tick_at_which_it_is_ready() {
        let tick = |ready| ClockTick::first_after(ms(1_000), ms(200), ms(ready));
        for (ready, number, at) in [
            (1_000, 1, 1_200),
            (1_001, 1, 1_200),
            (1_199, 1, 1_200),
            (1_200, 1, 1_200),
            (1_201, 2, 1_400),
            (1_400, 2, 1_400),
            (3_050, 11, 3_200),
            // Never before the opening of the clock.
            (0, 1, 1_200),
        ] {
            assert_eq!(tick(ready), ClockTick { number, at: ms(at) }, "{ready}");
        }
        assert!(!tick(1_200).is_late() && tick(1_201).is_late());
    }

    #[tokio::test]
    async fn send_times_do_not_depend_on_the_batch() {
        // The attack of finding A6 on a fake clock: 40 ms for every drawn unit, 200 rounds, for any draw.
        let send_times = |batch: fn(u64) -> u64, on_clock: bool| async move {
            let timeline = Arc::new(FakeTimeline::default());
            let folder = tempfile::tempdir().unwrap();
            let clock = ReleaseClock::open(Arc::clone(&timeline) as Arc<dyn ReleaseTimeline>, folder.path());
            clock.set_period(period(1_000)).unwrap();
            let mut times = Vec::new();
            for round in 0..200 {
                clock.reopen();
                timeline.pass(ms(40 * batch(round)));
                if on_clock {
                    assert!(!clock.wait(&CancellationToken::new()).await.unwrap().is_late());
                }
                times.push(timeline.now());
            }
            times
        };
        let [with, without] = [|round: u64| 3 + 20 * (round % 2), |_: u64| 3];
        assert_eq!(send_times(with, true).await, send_times(without, true).await);
        assert_ne!(
            send_times(with, false).await,
            send_times(without, false).await,
            "without a clock they depend on the batch"
        );
    }

    #[tokio::test]
    async fn late_releases_are_counted_and_kept() {
        let timeline = Arc::new(FakeTimeline::default());
        let folder = tempfile::tempdir().unwrap();
        let clock = ReleaseClock::open(Arc::clone(&timeline) as Arc<dyn ReleaseTimeline>, folder.path());
        clock.set_period(period(100)).unwrap();
        for computing in [50, 100, 101, 350] {
            clock.reopen();
            timeline.pass(ms(computing));
            clock.wait(&CancellationToken::new()).await.unwrap();
        }
        let expected = ClockRecord { period_millis: 100, releases: 4, late: 2 };
        assert_eq!((clock.record(), ClockRecord::load(folder.path())), (expected, Some(expected)));
        // The next process knows the period, and opens its own clock when it begins.
        let again = ReleaseClock::open(Arc::clone(&timeline) as Arc<dyn ReleaseTimeline>, folder.path());
        assert_eq!((again.measured_before(), again.period()), (Some(period(100)), None));
        again.set_period(period(100)).unwrap();
        let began = timeline.now();
        timeline.pass(ms(30));
        assert_eq!(again.wait(&CancellationToken::new()).await.unwrap().at, began + ms(100));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_when_the_part_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ReleaseClock::open(Arc::new(SystemTimeline::default()), folder.path());
        clock.set_period(period(10_000)).unwrap();
        let stop = CancellationToken::new();
        let (tick, ()) = tokio::join!(clock.wait(&stop), async { stop.cancel() });
        assert_eq!((tick, clock.record().releases), (None, 0), "nothing left");
        let began = tokio::time::Instant::now();
        assert!(clock.wait(&CancellationToken::new()).await.is_some());
        assert_eq!(began.elapsed().as_secs(), 10);
    }
}
