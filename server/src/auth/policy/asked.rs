//! For tests: what a request asked of the policy, and what was answered. A request that runs inside [`during`] leaves a
//! note at each question.

use std::cell::RefCell;
use std::future::Future;

use super::{Operation, Place};

/// One question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) place: Place,
    pub(crate) allowed: bool,
}

tokio::task_local! {
    static NOTES: RefCell<Vec<Asked>>;
}

/// Runs `work` and gives what it asked, in order, with what came of it.
pub(crate) async fn during<T>(work: impl Future<Output = T>) -> (T, Vec<Asked>) {
    let run = async {
        let outcome = work.await;
        (outcome, NOTES.with(RefCell::take))
    };
    NOTES.scope(RefCell::default(), run).await
}

/// Notes a question, where somebody listens.
pub(super) fn note(operation: Operation, place: Place, allowed: bool) {
    // Outside of `during` nobody does.
    let _ = NOTES.try_with(|notes| notes.borrow_mut().push(Asked { operation, place, allowed }));
}
