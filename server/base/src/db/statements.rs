//! Counts the statements of a write transaction.

use std::cell::Cell;

thread_local! {
    /// The statements of this thread's current transaction.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// Counts a statement. The callback runs on the thread that waits for the result, which is the transaction's thread.
pub(super) fn count() {
    COUNTED.set(COUNTED.get() + 1);
}

/// Runs `work` on this thread, and also returns the number of statements meanwhile.
pub(super) fn during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    COUNTED.set(0);
    let result = work();
    (result, COUNTED.get())
}
