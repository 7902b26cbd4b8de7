//! Faults of a broken worker that the accountant does not see, for tests of the audit. Available with the feature
//! `testing`, which only tests enable.

use std::cell::Cell;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The worker adds no noise.
    NoNoise,
    /// The worker does not clip.
    NoClip,
    /// The worker puts every unit in every batch.
    EveryUnit,
    /// The noise is smaller than charged, by this factor.
    LittleNoise(i64),
}

thread_local! {
    static DONE: Cell<Option<Sabotage>> = const { Cell::new(None) };
}

/// Sets or clears the fault of this thread's worker.
pub fn on_this_thread(sabotage: Option<Sabotage>) {
    DONE.set(sabotage);
}

/// Returns the current fault.
pub(super) fn active_fault() -> Option<Sabotage> {
    DONE.get()
}
