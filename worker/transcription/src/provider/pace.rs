//! The request rate of a provider: requests start at equal intervals, whatever the sounds are, and not during a requested pause.

use std::time::Duration;

use tokio::time::Instant;

/// Schedules the start of the next request.
#[derive(Debug)]
pub(super) struct RequestPace {
    gap: Duration,
    next: Option<Instant>,
}

impl RequestPace {
    /// Creates a schedule of `requests_per_minute`, at least 1.
    pub(super) fn new(requests_per_minute: u32) -> Self {
        Self { gap: Duration::from_mins(1) / requests_per_minute.max(1), next: None }
    }

    /// Reserves the next start at `now` or later; each start is given once.
    pub(super) fn place(&mut self, now: Instant) -> Instant {
        let at = self.next.map_or(now, |next| next.max(now));
        self.next = Some(at + self.gap);
        at
    }

    /// Delays all further starts until `until`.
    pub(super) fn hold(&mut self, until: Instant) {
        self.next = Some(self.next.map_or(until, |next| next.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::RequestPace;

    #[test]
    fn requests_start_at_equal_intervals() {
        let mut pace = RequestPace::new(120);
        let now = Instant::now();
        let places: Vec<_> = (0..4).map(|_| pace.place(now) - now).collect();
        assert_eq!(places, [0, 500, 1_000, 1_500].map(Duration::from_millis));
        // A late request starts at once; unused intervals are not made up for.
        let late = now + Duration::from_mins(1);
        assert_eq!(pace.place(late), late);
        assert_eq!(pace.place(late), late + Duration::from_millis(500));
    }

    #[test]
    fn requested_pause_delays_all_requests() {
        let mut pace = RequestPace::new(60_000);
        let now = Instant::now();
        let until = now + Duration::from_secs(30);
        pace.hold(until);
        pace.hold(now);
        assert_eq!(pace.place(now), until);
        assert_eq!(pace.place(now), until + Duration::from_millis(1));
    }
}
