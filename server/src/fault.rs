//! Places at which a server can be made to die, or its disk to fail, to show that an accident never loses a charge.
//!
//! `UNDERTONE_SERVER_FAULT=<point>` or `<point>:<n>` in the environment chooses the place, or a [`Plan`] in the process: see [`undertone_failpoints`].
//! Without that crate's feature `enabled`, which no package has, a point is nothing.
//!
//! Points stand before and after everything that cannot be undone: each transaction ([`BEFORE_COMMIT`],
//! [`AFTER_COMMIT`]), each file that becomes visible ([`BEFORE_STORE`], [`AFTER_STORE`]), each message of a worker
//! ([`RECEIVED`]) and its answer ([`BEFORE_ANSWER`]).

use std::io;

use undertone_failpoints::Failpoints;
pub use undertone_failpoints::{Accident, Death, Plan};

/// A worker's message is here; nothing is made of it yet.
pub const RECEIVED: &str = "received";
/// What a message asked for is done; the worker does not know.
pub const BEFORE_ANSWER: &str = "before-answer";
/// A transaction is complete, and not committed.
pub const BEFORE_COMMIT: &str = "before-commit";
/// A transaction is committed; nobody knows yet.
pub const AFTER_COMMIT: &str = "after-commit";
/// A vector or file is complete, and not visible.
pub const BEFORE_STORE: &str = "before-store";
/// A vector or file is visible and synced; no row names it yet.
pub const AFTER_STORE: &str = "after-store";

/// The variable that names the point.
pub const VARIABLE: &str = "UNDERTONE_SERVER_FAULT";

/// The points of this program.
static POINTS: Failpoints = Failpoints::new(VARIABLE);

/// Arms a plan for this thread, or disarms it; gives what was left of the one before.
pub fn plan(next: Option<Plan>) -> Option<Plan> {
    POINTS.plan(next)
}

/// Dies here, when the environment or the plan says so.
pub fn point(name: &'static str) {
    POINTS.point(name);
}

/// As [`point`], at a place that touches the disk: it may also fail there.
///
/// # Errors
/// The planned failure of the disk.
pub fn disk(name: &'static str) -> io::Result<()> {
    POINTS.disk(name)
}
