//! Failpoints of a build without them: no effect.

use std::io;

use super::FailurePlan;

/// The state: no plan is ever armed.
#[derive(Debug)]
pub(super) struct FailpointState;

#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same functions as where there are points")]
impl FailpointState {
    pub(super) const fn new() -> Self {
        Self
    }

    #[inline]
    pub(super) const fn plan(&self, _variable: &'static str, _next: Option<FailurePlan>) -> Option<FailurePlan> {
        None
    }

    #[inline]
    pub(super) const fn point(&self, _variable: &'static str, _name: &'static str) {}

    #[inline]
    pub(super) const fn disk(&self, _variable: &'static str, _name: &'static str) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::FailpointState;
    use crate::{FailureKind, FailurePlan};

    #[test]
    fn point_without_the_feature_is_nothing() {
        let state = FailpointState::new();
        for accident in [FailureKind::Crash, FailureKind::Disk] {
            assert_eq!(state.plan("UNDERTONE_FAILPOINTS_TEST", Some(FailurePlan { accident, after: 1 })), None);
            state.point("UNDERTONE_FAILPOINTS_TEST", "before-sync");
            assert!(state.disk("UNDERTONE_FAILPOINTS_TEST", "before-sync").is_ok());
        }
        assert_eq!(state.plan("UNDERTONE_FAILPOINTS_TEST", None), None);
    }
}
