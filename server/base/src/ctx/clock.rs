//! The time, as a parameter. Only this file reads the system's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use time::{Duration, OffsetDateTime};

/// A clock that returns UTC, truncated to the microsecond: the finest resolution that both databases store.
#[derive(Clone)]
pub struct Clock(ClockSource);

#[derive(Clone)]
enum ClockSource {
    System,
    Manual(ManualClock),
}

/// A clock that moves only by [`ManualClock::advance`].
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl Clock {
    /// Returns the system's clock.
    pub const fn system() -> Self {
        Self(ClockSource::System)
    }

    /// Returns the current time.
    pub fn now(&self) -> OffsetDateTime {
        match &self.0 {
            ClockSource::System => {
                #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
                let now = OffsetDateTime::now_utc();
                now.replace_nanosecond(now.microsecond() * 1000).unwrap_or(now)
            }
            ClockSource::Manual(clock) => clock.now(),
        }
    }
}

impl ManualClock {
    /// Makes a clock that shows `start`.
    pub fn starting_at(start: OffsetDateTime) -> Self {
        Self(Arc::new(AtomicI64::new((start.unix_timestamp_nanos() / 1000) as i64)))
    }

    /// Returns the clock's time.
    pub fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::microseconds(self.0.load(Ordering::SeqCst))
    }

    /// Advances the clock; backward if `by` is negative.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.whole_microseconds() as i64, Ordering::SeqCst);
    }

    /// Converts to a [`Clock`]; both show the same time.
    pub fn clock(&self) -> Clock {
        Clock(ClockSource::Manual(self.clone()))
    }
}
