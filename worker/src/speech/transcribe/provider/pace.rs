//! How fast a provider is asked: at equal distances, whatever the sounds are, and not while it has asked for a pause.

use std::time::Duration;

use tokio::time::Instant;

/// When the next request may begin.
#[derive(Debug)]
pub(super) struct Pace {
    gap: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// So many requests a minute, at least 1.
    pub(super) fn new(requests_per_minute: u32) -> Self {
        Self { gap: Duration::from_mins(1) / requests_per_minute.max(1), next: None }
    }

    /// Takes the next place at `now` or later; each place is given once.
    pub(super) fn place(&mut self, now: Instant) -> Instant {
        let at = self.next.map_or(now, |next| next.max(now));
        self.next = Some(at + self.gap);
        at
    }

    /// No place before `until`.
    pub(super) fn hold(&mut self, until: Instant) {
        self.next = Some(self.next.map_or(until, |next| next.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Pace;

    #[test]
    fn requests_begin_at_equal_distances_and_never_faster() {
        let mut pace = Pace::new(120);
        let now = Instant::now();
        let places: Vec<_> = (0..4).map(|_| pace.place(now) - now).collect();
        assert_eq!(places, [0, 500, 1_000, 1_500].map(Duration::from_millis));
        // Who comes late starts at once; no time that was not used is made up for.
        let late = now + Duration::from_mins(1);
        assert_eq!(pace.place(late), late);
        assert_eq!(pace.place(late), late + Duration::from_millis(500));
    }

    #[test]
    fn a_pause_that_was_asked_for_holds_everything() {
        let mut pace = Pace::new(60_000);
        let now = Instant::now();
        let until = now + Duration::from_secs(30);
        pace.hold(until);
        pace.hold(now);
        assert_eq!(pace.place(now), until);
        assert_eq!(pace.place(now), until + Duration::from_millis(1));
    }
}
