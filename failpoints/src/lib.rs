//! Failpoints at which a program crashes or its disk fails, for tests that no crash loses a charge.
//!
//! A program has one [`Failpoints`]. There are two ways to select a point. By environment: `<variable>=<point>` or
//! `<point>:<n>` aborts the process when it reaches that point for the n-th time (default: the first). In process, for
//! the simulation: a [`FailurePlan`] armed for the calling thread. A planned crash is an unwinding with
//! [`SimulatedCrash`], which only the simulation catches; it leaves the same state on disk as an abort.
//!
//! All of it needs the feature `enabled`, which only tests enable. Without it a point does nothing.

use std::io;

#[cfg(any(test, not(feature = "enabled")))]
mod disabled;
#[cfg(feature = "enabled")]
mod enabled;

#[cfg(not(feature = "enabled"))]
use disabled::FailpointState;
#[cfg(feature = "enabled")]
use enabled::FailpointState;

/// The kind of failure at the plan's point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The process crashes and loses its memory.
    Crash,
    /// The disk fails; points without disk access are skipped.
    Disk,
}

/// An accident at the n-th point that the calling thread passes, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePlan {
    /// The kind of failure.
    pub accident: FailureKind,
    /// The number of the point, counted from 1 among the points at which this accident can happen.
    pub after: u64,
}

/// The payload of a planned crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedCrash {
    /// The name of the point.
    pub point: &'static str,
}

/// The failpoints of one program, identified by its variable.
#[derive(Debug)]
pub struct Failpoints {
    /// The environment variable that selects a point.
    variable: &'static str,
    state: FailpointState,
}

impl Failpoints {
    /// Makes the failpoints of the program with this environment variable.
    pub const fn new(variable: &'static str) -> Self {
        Self { variable, state: FailpointState::new() }
    }

    /// Returns the environment variable that selects a point.
    pub const fn variable(&self) -> &'static str {
        self.variable
    }

    /// Arms a plan for this thread, or disarms it. Returns the rest of the previous plan.
    pub fn plan(&self, next: Option<FailurePlan>) -> Option<FailurePlan> {
        self.state.plan(self.variable, next)
    }

    /// Crashes here if the environment or the plan selects this point.
    #[inline]
    pub fn point(&self, name: &'static str) {
        self.state.point(self.variable, name);
    }

    /// Acts as [`Failpoints::point`] before or after a disk access, where it may also return a disk error.
    ///
    /// # Errors
    /// The planned failure of the disk.
    #[inline]
    pub fn disk(&self, name: &'static str) -> io::Result<()> {
        self.state.disk(self.variable, name)
    }
}
