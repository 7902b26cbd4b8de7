//! The guarantee of an account whose limit is raised after a release.
//!
//! A filter is a theorem about a limit that is fixed before the first release (Rogers, Roth, Ullman and Vadhan 2016;
//! Feldman and Zrnic 2021). A raise after outputs were seen may depend on them, and "(ε_new, δ_new) for everything" is
//! then no theorem. The valid argument: everything until the raise came through a filter of the old limit, (ε₁, δ₁).
//! Given those outputs, for any values of them, everything after the raise comes through a filter whose limit is fixed
//! at that moment and at most the new one, because the account charges the earlier cost to it as well: (ε₂, δ₂). Basic
//! composition, which holds for a second mechanism chosen by the first one's output (Dwork and Roth 2014, appendix B),
//! gives (ε₁ + ε₂, δ₁ + δ₂); and so on for every further raise.
//!
//! A limit that was raised before any release is one promise: the first limit with a release. A limit that is lowered,
//! and raised again at most to its former value, stays within its promise: the filter of the higher limit was only used
//! up to less.

use serde::{Deserialize, Serialize};

use crate::unit::{Delta, Epsilon};

/// A limit with releases, or with future releases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// ε.
    pub epsilon: Epsilon,
    /// δ.
    pub delta: Delta,
}

impl Promise {
    /// Returns true if all losses within this limit are within the other.
    fn is_within(self, other: Self) -> bool {
        self.epsilon <= other.epsilon && self.delta <= other.delta
    }
}

/// The promises of one account, oldest first. The caller reports the account's events in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Promises {
    all: Vec<Promise>,
    /// Whether a release was made under the last of them.
    has_releases: bool,
}

impl Promises {
    /// Records a new limit.
    pub fn set_limit(&mut self, epsilon: Epsilon, delta: Delta) {
        let new = Promise { epsilon, delta };
        if !self.has_releases {
            // No release was made since, so the previous limit never took effect.
            self.all.pop();
            self.has_releases = !self.all.is_empty();
        }
        if self.all.last().is_none_or(|last| !new.is_within(*last)) {
            self.all.push(new);
            self.has_releases = false;
        }
    }

    /// Records a release. A release without a limit is in no promise.
    pub const fn release(&mut self) {
        self.has_releases = !self.all.is_empty();
    }

    /// Returns the promises; the last may be without a release yet.
    pub fn all(&self) -> &[Promise] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;

    /// Returns ε of the promises after some steps: a number sets a limit, `None` releases something.
    fn promises_after(steps: &[Option<f64>]) -> Vec<f64> {
        let mut promises = Promises::default();
        for step in steps {
            match step {
                Some(epsilon) => promises.set_limit(Epsilon::new(*epsilon).unwrap(), Delta::new(1e-6).unwrap()),
                None => promises.release(),
            }
        }
        promises.all().iter().map(|promise| promise.epsilon.get()).collect()
    }

    #[test]
    fn raise_after_release_is_a_second_promise() {
        assert_eq!(promises_after(&[Some(4.0), None, Some(8.0)]), [4.0, 8.0]);
        assert_eq!(promises_after(&[Some(4.0), None, Some(8.0), None, Some(9.0), None]), [4.0, 8.0, 9.0]);
    }

    #[test]
    fn raise_before_any_release_is_the_only_promise() {
        assert_eq!(promises_after(&[Some(4.0), Some(8.0), None]), [8.0]);
        assert_eq!(promises_after(&[None, Some(4.0)]), [4.0], "what left without a limit is in no promise");
    }

    #[test]
    fn last_of_several_raises_between_releases_counts() {
        assert_eq!(promises_after(&[Some(4.0), None, Some(8.0), Some(6.0), None]), [4.0, 6.0]);
        assert_eq!(
            promises_after(&[Some(4.0), None, Some(8.0), Some(4.0), None]),
            [4.0],
            "taken back before it was used"
        );
    }

    #[test]
    fn limit_within_a_promise_begins_none() {
        assert_eq!(promises_after(&[Some(8.0), None, Some(4.0), None, Some(8.0), None]), [8.0]);
    }

    #[test]
    fn larger_delta_begins_a_promise() {
        let mut promises = Promises::default();
        promises.set_limit(Epsilon::new(4.0).unwrap(), Delta::new(1e-6).unwrap());
        promises.release();
        promises.set_limit(Epsilon::new(4.0).unwrap(), Delta::new(1e-5).unwrap());
        assert_eq!(promises.all().len(), 2);
    }
}
