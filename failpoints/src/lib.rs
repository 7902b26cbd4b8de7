//! Places at which a program can be made to die, or its disk to fail, to show that an accident never loses a charge.
//!
//! A program has one [`Failpoints`]. There are two ways to choose the place. By environment: `<variable>=<point>` or
//! `<point>:<n>` aborts the process when it reaches that point for the n-th time (default: the first). In process, for the
//! simulation: a [`Plan`] that is armed for the calling thread; death is an unwinding with [`Death`] that the simulation
//! alone catches, and leaves on disk exactly what an abort would.
//!
//! All of it needs the feature `enabled`, which only tests enable. Without it a point is nothing.

use std::io;

#[cfg(any(test, not(feature = "enabled")))]
mod disabled;
#[cfg(feature = "enabled")]
mod enabled;

#[cfg(not(feature = "enabled"))]
use disabled::State;
#[cfg(feature = "enabled")]
use enabled::State;

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

/// The points of one program, told from those of another by their variable.
#[derive(Debug)]
pub struct Failpoints {
    /// The variable that names the point.
    variable: &'static str,
    state: State,
}

impl Failpoints {
    /// The points of the program whose environment names one of them in `variable`.
    pub const fn new(variable: &'static str) -> Self {
        Self { variable, state: State::new() }
    }

    /// The variable that names the point.
    pub const fn variable(&self) -> &'static str {
        self.variable
    }

    /// Arms a plan for this thread, or disarms it; gives what was left of the one before.
    pub fn plan(&self, next: Option<Plan>) -> Option<Plan> {
        self.state.plan(self.variable, next)
    }

    /// Dies here, when the environment or the plan says so.
    #[inline]
    pub fn point(&self, name: &'static str) {
        self.state.point(self.variable, name);
    }

    /// As [`Failpoints::point`], at a place that touches the disk: it may also fail there.
    ///
    /// # Errors
    /// The planned failure of the disk.
    #[inline]
    pub fn disk(&self, name: &'static str) -> io::Result<()> {
        self.state.disk(self.variable, name)
    }
}
