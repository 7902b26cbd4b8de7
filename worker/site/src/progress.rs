//! How long work tells how far it is. The work knows this trait; a terminal, or nobody, implements it.

/// Somebody to tell.
pub trait Progress: Sync {
    /// A piece of work of `total` steps begins.
    fn start(&self, what: &str, total: u64);
    /// A piece of work begins whose steps are so many bytes to read.
    fn start_bytes(&self, what: &str, total: u64) {
        self.start(what, total);
    }
    /// So many steps were done before, by an earlier run.
    fn resume(&self, steps: u64) {
        self.advance(steps);
    }
    /// So many steps more are done.
    fn advance(&self, steps: u64);
    /// The piece of work is done.
    fn finish(&self);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn finish(&self) {}
}
