//! Failpoints of a build that has them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{FailureKind, FailurePlan, SimulatedCrash};

#[derive(Debug)]
struct SelectedFault {
    point: String,
    left: AtomicU64,
}

/// The armed faults of one program in this process.
#[derive(Debug)]
pub(super) struct FailpointState {
    /// Whether any thread ever armed a plan. Without plans, when only the environment selects a point, this check is
    /// the only cost.
    planned: AtomicBool,
    fault: OnceLock<Option<SelectedFault>>,
}

thread_local! {
    /// Keyed by the program's variable: two programs may run in one thread, each with its own plan.
    static PLANS: RefCell<BTreeMap<&'static str, FailurePlan>> = const { RefCell::new(BTreeMap::new()) };
}

impl FailpointState {
    pub(super) const fn new() -> Self {
        Self { planned: AtomicBool::new(false), fault: OnceLock::new() }
    }

    pub(super) fn plan(&self, variable: &'static str, next: Option<FailurePlan>) -> Option<FailurePlan> {
        if next.is_some() {
            self.planned.store(true, Ordering::Relaxed);
        }
        PLANS.with_borrow_mut(|plans| match next {
            Some(plan) => plans.insert(variable, plan),
            None => plans.remove(variable),
        })
    }

    pub(super) fn point(&self, variable: &'static str, name: &'static str) {
        if self.reached(variable, FailureKind::Crash) {
            die(name);
        }
        let fault = self.fault.get_or_init(|| std::env::var(variable).ok().map(|text| parse(&text)));
        let Some(fault) = fault.as_ref().filter(|fault| fault.point == name) else { return };
        if fault.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            tracing::error!(fault = name, "dying here, because {variable} says so");
            std::process::abort();
        }
    }

    pub(super) fn disk(&self, variable: &'static str, name: &'static str) -> io::Result<()> {
        self.point(variable, name);
        if self.reached(variable, FailureKind::Disk) {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        } else {
            Ok(())
        }
    }

    /// Counts a point at which `accident` can happen; returns true when it happens here. That consumes the plan.
    fn reached(&self, variable: &'static str, accident: FailureKind) -> bool {
        self.planned.load(Ordering::Relaxed)
            && PLANS.with_borrow_mut(|plans| {
                let Some(armed) = plans.get_mut(variable).filter(|armed| armed.accident == accident) else {
                    return false;
                };
                armed.after = armed.after.saturating_sub(1);
                armed.after == 0 && plans.remove(variable).is_some()
            })
    }
}

/// Unwinds without the panic hook, which is for unplanned panics.
fn die(point: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(SimulatedCrash { point }))
}

fn parse(text: &str) -> SelectedFault {
    let (point, count) = text.split_once(':').unwrap_or((text, "1"));
    SelectedFault { point: point.to_owned(), left: AtomicU64::new(count.parse().unwrap_or(1).max(1)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::parse;
    use crate::{Failpoints, FailureKind, FailurePlan, SimulatedCrash};

    const BEFORE_SYNC: &str = "before-sync";
    const AFTER_SYNC: &str = "after-sync";

    /// Returns the points of a program that no environment selects.
    const fn points() -> Failpoints {
        Failpoints::new("UNDERTONE_FAILPOINTS_TEST")
    }

    #[test]
    fn a_fault_names_its_point_and_how_often_it_is_passed() {
        for (text, point, left) in [("after-commit", "after-commit", 1), ("before-send:7", "before-send", 7)] {
            let fault = parse(text);
            assert_eq!((fault.point.as_str(), fault.left.load(Ordering::SeqCst)), (point, left));
        }
    }

    #[test]
    fn a_planned_death_comes_at_its_point_and_once() {
        let points = points();
        points.plan(Some(FailurePlan { accident: FailureKind::Crash, after: 2 }));
        points.point(BEFORE_SYNC);
        let died = std::panic::catch_unwind(|| points.point(AFTER_SYNC)).expect_err("it was planned");
        assert_eq!(died.downcast_ref(), Some(&SimulatedCrash { point: AFTER_SYNC }));
        points.point(AFTER_SYNC);
        assert_eq!(points.plan(None), None);
    }

    #[test]
    fn a_planned_failure_of_the_disk_passes_over_other_points() {
        let points = points();
        points.plan(Some(FailurePlan { accident: FailureKind::Disk, after: 1 }));
        points.point(BEFORE_SYNC);
        assert!(points.disk(BEFORE_SYNC).is_err());
        assert!(points.disk(BEFORE_SYNC).is_ok());
    }

    #[test]
    fn a_plan_is_for_one_thread_and_one_program() {
        static POINTS: Failpoints = points();
        let other = Failpoints::new("UNDERTONE_FAILPOINTS_OTHER");
        other.plan(None);
        POINTS.plan(Some(FailurePlan { accident: FailureKind::Disk, after: 1 }));
        std::thread::spawn(|| assert!(POINTS.disk(BEFORE_SYNC).is_ok())).join().expect("no death there");
        assert!(other.disk(BEFORE_SYNC).is_ok());
        assert!(POINTS.disk(BEFORE_SYNC).is_err());
    }
}
