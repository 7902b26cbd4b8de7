//! Failpoints at which a worker crashes or its disk fails, for tests that no crash loses a charge.
//!
//! `UNDERTONE_FAULT=<point>` or `<point>:<n>` in the environment selects a point; in the process, a [`FailurePlan`] does: see
//! [`undertone_failpoints`]. Without that crate's feature `enabled`, which no package has, a point does nothing.
//!
//! Points stand before and after every irreversible action: each sync of a file ([`BEFORE_SYNC`], [`AFTER_SYNC`]), each
//! transaction ([`BEFORE_WRITE`], [`AFTER_WRITE`]), each call to the server ([`BEFORE_CALL`], [`AFTER_CALL`]), each
//! replacement of a folder ([`BEFORE_PLACE`], [`AFTER_PLACE`]) or its removal ([`AFTER_REMOVAL`]). The path of a
//! release has, in order: [`BEFORE_STORE`], [`AFTER_STORE`], [`BEFORE_COMMIT`], [`AFTER_COMMIT`],
//! [`BEFORE_COUNTERSIGN`], [`AFTER_COUNTERSIGN`], [`BEFORE_SEND`], [`AFTER_SEND`], [`BEFORE_SETTLE`], [`AFTER_SETTLE`].

use std::io;

use undertone_failpoints::Failpoints;
pub use undertone_failpoints::{FailureKind, FailurePlan, SimulatedCrash};

/// A file's content is written but not synced.
pub const BEFORE_SYNC: &str = "before-sync";
/// A file and its name are synced.
pub const AFTER_SYNC: &str = "after-sync";
/// A transaction is complete but not committed.
pub const BEFORE_WRITE: &str = "before-write";
/// A transaction is committed; its caller has not continued yet.
pub const AFTER_WRITE: &str = "after-write";
/// A folder is complete but not in its place. Where the replacement takes two steps, once more between them.
pub const BEFORE_PLACE: &str = "before-place";
/// A folder is in its place; the replaced folder still exists. Where the replacement takes two steps, once more after
/// the second.
pub const AFTER_PLACE: &str = "after-place";
/// A folder that is no longer needed is removed.
pub const AFTER_REMOVAL: &str = "after-removal";
/// Before any call to the server.
pub const BEFORE_CALL: &str = "before-call";
/// The server has answered; the answer is not processed yet.
pub const AFTER_CALL: &str = "after-call";
/// The release is made but not on disk.
pub const BEFORE_STORE: &str = "before-store";
/// The release is on disk but not paid.
pub const AFTER_STORE: &str = "after-store";
/// The charge is decided but not on disk.
pub const BEFORE_COMMIT: &str = "before-commit";
/// Charge, receipt and reference to the bytes are on disk; the server has not received them.
pub const AFTER_COMMIT: &str = "after-commit";
/// Before the request that the server countersign the payment.
pub const BEFORE_COUNTERSIGN: &str = "before-countersign";
/// The server's countersignature is on disk; nothing of the release has been sent.
pub const AFTER_COUNTERSIGN: &str = "after-countersign";
/// Before sending.
pub const BEFORE_SEND: &str = "before-send";
/// The server has the release; this site has not recorded it.
pub const AFTER_SEND: &str = "after-send";
/// The run has ended; its reservation is still held.
pub const BEFORE_SETTLE: &str = "before-settle";
/// The reservation is settled; the server has not been notified.
pub const AFTER_SETTLE: &str = "after-settle";

/// The environment variable that selects the point.
pub const VARIABLE: &str = "UNDERTONE_FAULT";

/// The failpoints of this program.
static POINTS: Failpoints = Failpoints::new(VARIABLE);

/// Arms a plan for this thread, or disarms it. Returns the rest of the previous plan.
pub fn plan(next: Option<FailurePlan>) -> Option<FailurePlan> {
    POINTS.plan(next)
}

/// Crashes here if the environment or the plan selects this point.
pub fn point(name: &'static str) {
    POINTS.point(name);
}

/// Acts as [`point`] before or after a disk access, where it may also return a disk error.
///
/// # Errors
/// The planned failure of the disk.
pub fn disk(name: &'static str) -> io::Result<()> {
    POINTS.disk(name)
}
