//! Places at which a worker can be made to die, to measure that a crash never loses a charge.
//!
//! `UNDERTONE_FAULT=<point>` or `<point>:<n>` aborts the process when it reaches that point for the n-th time (default: the
//! first). Without the variable a point costs one comparison. Points are spread over the path of a release, in order:
//! [`BEFORE_COMMIT`], [`AFTER_COMMIT`], [`BEFORE_STORE`], [`AFTER_STORE`], [`BEFORE_SEND`], [`AFTER_SEND`],
//! [`BEFORE_SETTLE`], [`AFTER_SETTLE`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The charge is decided, and not on disk.
pub const BEFORE_COMMIT: &str = "before-commit";
/// The charge is on disk, the release is not made.
pub const AFTER_COMMIT: &str = "after-commit";
/// The release is made, and not on disk.
pub const BEFORE_STORE: &str = "before-store";
/// The release is on disk, and has not been sent.
pub const AFTER_STORE: &str = "after-store";
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

struct Fault {
    point: String,
    left: AtomicU64,
}

/// Dies here, when the environment says so.
pub fn point(name: &str) {
    static FAULT: OnceLock<Option<Fault>> = OnceLock::new();
    let fault = FAULT.get_or_init(|| std::env::var(VARIABLE).ok().map(|text| parse(&text)));
    let Some(fault) = fault.as_ref().filter(|fault| fault.point == name) else { return };
    if fault.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        tracing::error!(fault = name, "dying here, because {VARIABLE} says so");
        std::process::abort();
    }
}

fn parse(text: &str) -> Fault {
    let (point, count) = text.split_once(':').unwrap_or((text, "1"));
    Fault { point: point.to_owned(), left: AtomicU64::new(count.parse().unwrap_or(1).max(1)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::parse;

    #[test]
    fn a_fault_names_its_point_and_how_often_it_is_passed() {
        for (text, point, left) in [("after-commit", "after-commit", 1), ("before-send:7", "before-send", 7)] {
            let fault = parse(text);
            assert_eq!((fault.point.as_str(), fault.left.load(Ordering::SeqCst)), (point, left));
        }
    }
}
