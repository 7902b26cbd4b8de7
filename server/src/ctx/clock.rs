//! The time, as a parameter. The system's clock is read in this file only.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use time::{Duration, OffsetDateTime};

/// Tells the time, UTC, cut to the microsecond: the finest time that both databases store.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(ManualClock),
}

/// A clock that stands until it is told to move.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl Clock {
    /// The system's clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// The present time.
    pub fn now(&self) -> OffsetDateTime {
        match &self.0 {
            Source::System => {
                #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
                let now = OffsetDateTime::now_utc();
                now.replace_nanosecond(now.microsecond() * 1000).unwrap_or(now)
            }
            Source::Manual(clock) => clock.now(),
        }
    }
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn starting_at(start: OffsetDateTime) -> Self {
        Self(Arc::new(AtomicI64::new((start.unix_timestamp_nanos() / 1000) as i64)))
    }

    /// The time it shows.
    pub fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::microseconds(self.0.load(Ordering::SeqCst))
    }

    /// Moves it on; backward when `by` is negative.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.whole_microseconds() as i64, Ordering::SeqCst);
    }

    /// As a [`Clock`]; both show the same time.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.clone()))
    }
}
