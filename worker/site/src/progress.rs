//! Progress of long work. The work calls this trait; a terminal display or [`SilentProgress`] implements it.

/// A receiver of progress.
pub trait ProgressReporter: Sync {
    /// Begins a piece of work of `total` steps.
    fn start(&self, what: &str, total: u64);
    /// Begins a piece of work measured in bytes to read.
    fn start_bytes(&self, what: &str, total: u64) {
        self.start(what, total);
    }
    /// Counts steps that an earlier run completed.
    fn resume(&self, steps: u64) {
        self.advance(steps);
    }
    /// Counts further completed steps.
    fn advance(&self, steps: u64);
    /// Ends the piece of work.
    fn finish(&self);
}

/// A receiver that discards progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentProgress;

impl ProgressReporter for SilentProgress {
    fn start(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn finish(&self) {}
}
