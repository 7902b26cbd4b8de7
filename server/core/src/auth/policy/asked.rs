//! For tests: records the policy checks of a request and their results. A request that runs inside [`during`] leaves a
//! record of each check.

use std::cell::RefCell;
use std::future::Future;

use super::{Operation, Place};

/// One policy check and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The operation.
    pub operation: Operation,
    /// Where it takes place.
    pub place: Place,
    /// Whether the policy allows it.
    pub allowed: bool,
}

tokio::task_local! {
    static NOTES: RefCell<Vec<Asked>>;
}

/// Runs `work` and returns its result with its policy checks, in order.
pub async fn during<T>(work: impl Future<Output = T>) -> (T, Vec<Asked>) {
    let run = async {
        let outcome = work.await;
        (outcome, NOTES.with(RefCell::take))
    };
    NOTES.scope(RefCell::default(), run).await
}

/// Records a check, if it runs inside [`during`].
pub(super) fn note(operation: Operation, place: Place, allowed: bool) {
    // Outside of `during` there is no list, and the check is not recorded.
    let _ = NOTES.try_with(|notes| notes.borrow_mut().push(Asked { operation, place, allowed }));
}
