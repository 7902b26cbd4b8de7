//! What a long measurement is at, for whoever waits for it: a sentence a line on standard error. Figures go to standard output.

use std::fmt::Display;
use std::time::Instant;

/// Tells what a scene is at, with the seconds since it began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    scene: &'static str,
    began: Instant,
}

impl Progress {
    /// Of the scene with this name, which begins.
    pub(super) fn of(scene: &'static str) -> Self {
        Self { scene, began: Instant::now() }
    }

    /// Tells what was done, or begins now.
    pub(super) fn say(self, what: impl Display) {
        eprintln!("load, {}, {:.1} s: {what}", self.scene, self.seconds());
    }

    /// Since it began.
    pub(super) fn seconds(self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}
