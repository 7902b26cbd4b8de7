//! Progress messages of a long measurement: a sentence for each line on standard error. Figures go to standard output.

use std::fmt::Display;
use std::time::Instant;

/// Prints the progress of a scene, with the seconds since its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct SceneProgress {
    scene: &'static str,
    began: Instant,
}

impl SceneProgress {
    /// Begins the scene with this name.
    pub(super) fn begin(scene: &'static str) -> Self {
        Self { scene, began: Instant::now() }
    }

    /// Prints a completed or beginning step.
    pub(super) fn say(self, what: impl Display) {
        eprintln!("load, {}, {:.1} s: {what}", self.scene, self.seconds());
    }

    /// Returns the seconds since the beginning.
    pub(super) fn seconds(self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}
