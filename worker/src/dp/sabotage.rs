//! What a broken worker would do behind the accountant's back, for tests of the audit. Exists in tests only.

use std::cell::Cell;

/// A way to be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// No noise is added.
    NoNoise,
    /// Nothing is clipped.
    NoClip,
    /// Everybody is in every batch.
    EveryUnit,
    /// The noise is so much smaller than it is said to be, by this factor.
    LittleNoise(i64),
}

thread_local! {
    static DONE: Cell<Option<Sabotage>> = const { Cell::new(None) };
}

/// Breaks this thread's worker, or mends it.
pub(crate) fn on_this_thread(sabotage: Option<Sabotage>) {
    DONE.set(sabotage);
}

/// What is broken.
pub(super) fn done() -> Option<Sabotage> {
    DONE.get()
}
