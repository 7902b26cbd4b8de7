//! With how many statements a transaction is written.

use std::cell::Cell;

thread_local! {
    /// Those of the transaction that this thread is at.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// Counts a statement. It is told of on the thread that waits for its answer, which is the one that is at the transaction.
pub(super) fn count() {
    COUNTED.set(COUNTED.get() + 1);
}

/// Does `work` on this thread, and gives the statements that were made meanwhile as well.
pub(super) fn during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    COUNTED.set(0);
    let done = work();
    (done, COUNTED.get())
}
