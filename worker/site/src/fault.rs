//! Places at which a worker can be made to die, or its disk to fail, to show that an accident never loses a charge.
//!
//! `UNDERTONE_FAULT=<point>` or `<point>:<n>` in the environment chooses the place, or a [`Plan`] in the process: see [`undertone_failpoints`].
//! Without that crate's feature `enabled`, which no package has, a point is nothing.
//!
//! Points stand before and after everything that cannot be undone: each sync of a file ([`BEFORE_SYNC`],
//! [`AFTER_SYNC`]), each transaction ([`BEFORE_WRITE`], [`AFTER_WRITE`]), each call to the server ([`BEFORE_CALL`],
//! [`AFTER_CALL`]), each folder that takes another's place ([`BEFORE_PLACE`], [`AFTER_PLACE`]) or is removed ([`AFTER_REMOVAL`]);
//! and over the path of a release, in order: [`BEFORE_STORE`], [`AFTER_STORE`], [`BEFORE_COMMIT`], [`AFTER_COMMIT`],
//! [`BEFORE_COUNTERSIGN`], [`AFTER_COUNTERSIGN`], [`BEFORE_SEND`], [`AFTER_SEND`], [`BEFORE_SETTLE`], [`AFTER_SETTLE`].

use std::io;

use undertone_failpoints::Failpoints;
pub use undertone_failpoints::{Accident, Death, Plan};

/// A file's content is written, and not synced.
pub const BEFORE_SYNC: &str = "before-sync";
/// A file and its name are synced.
pub const AFTER_SYNC: &str = "after-sync";
/// A transaction is complete, and not committed.
pub const BEFORE_WRITE: &str = "before-write";
/// A transaction is committed; nobody knows yet.
pub const AFTER_WRITE: &str = "after-write";
/// A folder is whole, and not in its place; where two steps are needed, once more between them.
pub const BEFORE_PLACE: &str = "before-place";
/// A folder is in its place; what it replaced is there yet. Where two steps are needed, once more after the second.
pub const AFTER_PLACE: &str = "after-place";
/// A folder that nothing needs any more is gone.
pub const AFTER_REMOVAL: &str = "after-removal";
/// About to call the server, about anything.
pub const BEFORE_CALL: &str = "before-call";
/// The server has answered; nothing is made of it yet.
pub const AFTER_CALL: &str = "after-call";
/// The release is made, and not on disk.
pub const BEFORE_STORE: &str = "before-store";
/// The release is on disk, and not paid.
pub const AFTER_STORE: &str = "after-store";
/// The charge is decided, and not on disk.
pub const BEFORE_COMMIT: &str = "before-commit";
/// Charge, receipt and reference to the bytes are on disk; the server does not know.
pub const AFTER_COMMIT: &str = "after-commit";
/// About to have the server countersign the payment.
pub const BEFORE_COUNTERSIGN: &str = "before-countersign";
/// The server's countersignature is on disk; nothing of the release has been sent.
pub const AFTER_COUNTERSIGN: &str = "after-countersign";
/// About to send.
pub const BEFORE_SEND: &str = "before-send";
/// The server has it, and this site has not noted so.
pub const AFTER_SEND: &str = "after-send";
/// The run is over, the reservation is still held.
pub const BEFORE_SETTLE: &str = "before-settle";
/// The reservation is settled, the server has not been told.
pub const AFTER_SETTLE: &str = "after-settle";

/// The variable that names the point.
pub const VARIABLE: &str = "UNDERTONE_FAULT";

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
