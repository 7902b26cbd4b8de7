//! For tests: records the policy checks of a request and their results. A request that runs inside [`record_checks`] leaves a
//! record of each check.

use std::cell::RefCell;
use std::future::Future;

use super::{Operation, Place};

/// One policy check and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyCheck {
    /// The operation.
    pub operation: Operation,
    /// Where it takes place.
    pub place: Place,
    /// Whether the policy allows it.
    pub allowed: bool,
}

tokio::task_local! {
    static CHECKS: RefCell<Vec<PolicyCheck>>;
}

/// Runs `work` and returns its result with its policy checks, in order.
pub async fn record_checks<T>(work: impl Future<Output = T>) -> (T, Vec<PolicyCheck>) {
    let run = async {
        let outcome = work.await;
        (outcome, CHECKS.with(RefCell::take))
    };
    CHECKS.scope(RefCell::default(), run).await
}

/// Records a check, if it runs inside [`record_checks`].
pub(super) fn record_check(operation: Operation, place: Place, allowed: bool) {
    // Outside of `record_checks` there is no list, and the check is not recorded.
    let _ = CHECKS.try_with(|checks| checks.borrow_mut().push(PolicyCheck { operation, place, allowed }));
}
