//! Points at which tests let a server crash or its disk fail, to show that such failures never lose a charge.
//!
//! `UNDERTONE_SERVER_FAULT=<point>` or `<point>:<n>` in the environment selects the point, or a [`FailurePlan`] in the
//! process: see [`undertone_failpoints`]. Without that crate's feature `enabled`, which no package has, points have no
//! effect.
//!
//! There are points before and after every irreversible step: each transaction ([`BEFORE_COMMIT`], [`AFTER_COMMIT`]),
//! each file that becomes visible ([`BEFORE_STORE`], [`AFTER_STORE`]), each message of a worker ([`RECEIVED`]) and its
//! answer ([`BEFORE_ANSWER`]).

use std::io;

use undertone_failpoints::Failpoints;
pub use undertone_failpoints::{FailureKind, FailurePlan, SimulatedCrash};

/// A worker's message was received; it has had no effect yet.
pub const RECEIVED: &str = "received";
/// The effect of a message is complete; the worker does not know it.
pub const BEFORE_ANSWER: &str = "before-answer";
/// A transaction is complete, but not committed.
pub const BEFORE_COMMIT: &str = "before-commit";
/// A transaction is committed; no caller knows it yet.
pub const AFTER_COMMIT: &str = "after-commit";
/// A vector or file is complete, but not visible.
pub const BEFORE_STORE: &str = "before-store";
/// A vector or file is visible and synced; no row refers to it yet.
pub const AFTER_STORE: &str = "after-store";

/// The environment variable that names the point.
pub(crate) const VARIABLE: &str = "UNDERTONE_SERVER_FAULT";

/// The points of this program.
static POINTS: Failpoints = Failpoints::new(VARIABLE);

/// Arms a plan for this thread, or disarms it; returns the rest of the previous plan.
pub fn plan(next: Option<FailurePlan>) -> Option<FailurePlan> {
    POINTS.plan(next)
}

/// Crashes here if the environment or the plan demands it.
pub fn point(name: &'static str) {
    POINTS.point(name);
}

/// Acts like [`point`], at a disk operation: it may also fail there.
///
/// # Errors
/// The planned failure of the disk.
pub(crate) fn disk(name: &'static str) -> io::Result<()> {
    POINTS.disk(name)
}
