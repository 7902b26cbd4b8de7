//! Places at which a worker can be made to die, or its disk to fail, to show that an accident never loses a charge.
//!
//! Two ways to choose the place. By environment: `UNDERTONE_FAULT=<point>` or `<point>:<n>` aborts the process when it
//! reaches that point for the n-th time (default: the first). In process, for the simulation: a [`Plan`] that is armed for
//! the calling thread; death is an unwinding with [`Death`] that the simulation alone catches, and leaves on disk exactly
//! what an abort would. Without either a point costs two comparisons.
//!
//! Points stand before and after everything that cannot be undone: each sync of a file ([`BEFORE_SYNC`],
//! [`AFTER_SYNC`]), each transaction ([`BEFORE_WRITE`], [`AFTER_WRITE`]), each call to the server ([`BEFORE_CALL`],
//! [`AFTER_CALL`]), each folder that takes another's place ([`BEFORE_PLACE`], [`AFTER_PLACE`]) or is removed ([`AFTER_REMOVAL`]);
//! and over the path of a release, in order: [`BEFORE_STORE`], [`AFTER_STORE`], [`BEFORE_COMMIT`], [`AFTER_COMMIT`],
//! [`BEFORE_COUNTERSIGN`], [`AFTER_COUNTERSIGN`], [`BEFORE_SEND`], [`AFTER_SEND`], [`BEFORE_SETTLE`], [`AFTER_SETTLE`].

use std::cell::RefCell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// What happens when the plan's point is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accident {
    /// The process dies: whatever is in memory is gone.
    Death,
    /// The disk fails; points that touch no file are passed over.
    Disk,
}

/// An accident at the n-th point that the calling thread passes, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What happens.
    pub accident: Accident,
    /// At which point that it can happen at, counted from 1.
    pub after: u64,
}

/// The payload of a planned death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Where it happened.
    pub point: &'static str,
}

struct Fault {
    point: String,
    left: AtomicU64,
}

/// Whether any thread ever armed a plan: a production process never does, and pays for no more than this.
static PLANNED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// Arms a plan for this thread, or disarms it; gives what was left of the one before.
pub fn plan(next: Option<Plan>) -> Option<Plan> {
    if next.is_some() {
        PLANNED.store(true, Ordering::Relaxed);
    }
    PLAN.replace(next)
}

/// Dies here, when the environment or the plan says so.
pub fn point(name: &'static str) {
    if reached(Accident::Death) {
        die(name);
    }
    static FAULT: OnceLock<Option<Fault>> = OnceLock::new();
    let fault = FAULT.get_or_init(|| std::env::var(VARIABLE).ok().map(|text| parse(&text)));
    let Some(fault) = fault.as_ref().filter(|fault| fault.point == name) else { return };
    if fault.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        tracing::error!(fault = name, "dying here, because {VARIABLE} says so");
        std::process::abort();
    }
}

/// As [`point`], at a place that touches the disk: it may also fail there.
///
/// # Errors
/// The planned failure of the disk.
pub fn disk(name: &'static str) -> io::Result<()> {
    point(name);
    if reached(Accident::Disk) { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
}

/// Counts a point at which `accident` can happen; true when it happens here. A plan is used up by that.
fn reached(accident: Accident) -> bool {
    PLANNED.load(Ordering::Relaxed)
        && PLAN.with_borrow_mut(|plan| {
            let Some(armed) = plan.as_mut().filter(|armed| armed.accident == accident) else { return false };
            armed.after = armed.after.saturating_sub(1);
            armed.after == 0 && plan.take().is_some()
        })
}

/// Unwinds without a word: the panic hook is for accidents that nobody planned.
fn die(point: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(Death { point }))
}

fn parse(text: &str) -> Fault {
    let (point, count) = text.split_once(':').unwrap_or((text, "1"));
    Fault { point: point.to_owned(), left: AtomicU64::new(count.parse().unwrap_or(1).max(1)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{AFTER_SYNC, Accident, BEFORE_SYNC, Death, Plan, disk, parse, plan, point};

    #[test]
    fn a_fault_names_its_point_and_how_often_it_is_passed() {
        for (text, point, left) in [("after-commit", "after-commit", 1), ("before-send:7", "before-send", 7)] {
            let fault = parse(text);
            assert_eq!((fault.point.as_str(), fault.left.load(Ordering::SeqCst)), (point, left));
        }
    }

    #[test]
    fn a_planned_death_comes_at_its_point_and_once() {
        plan(Some(Plan { accident: Accident::Death, after: 2 }));
        point(BEFORE_SYNC);
        let died = std::panic::catch_unwind(|| point(AFTER_SYNC)).expect_err("it was planned");
        assert_eq!(died.downcast_ref(), Some(&Death { point: AFTER_SYNC }));
        point(AFTER_SYNC);
        assert_eq!(plan(None), None);
    }

    #[test]
    fn a_planned_failure_of_the_disk_passes_over_other_points() {
        plan(Some(Plan { accident: Accident::Disk, after: 1 }));
        point(BEFORE_SYNC);
        assert!(disk(BEFORE_SYNC).is_err());
        assert!(disk(BEFORE_SYNC).is_ok());
    }

    #[test]
    fn a_plan_is_for_one_thread() {
        plan(Some(Plan { accident: Accident::Disk, after: 1 }));
        std::thread::spawn(|| assert!(disk(BEFORE_SYNC).is_ok())).join().expect("no death there");
        assert!(disk(BEFORE_SYNC).is_err());
    }
}
