//! Limits that were raised after a release: each raise begins a new promise, and the bound for all releases is the sum
//! of the promises.

use undertone_api::budget::PromisedLimit;
use undertone_privacy::ledger::Promises;

use crate::cli::table::up;
use crate::site::policy::LifetimeLimit;

/// Returns the sum of several promises in words; `None` for one or none.
pub(in crate::cli) fn sum(promises: &Promises) -> Option<String> {
    let limits = PromisedLimit::from_promises(promises);
    let (epsilon, delta) = PromisedLimit::combine(&limits);
    let each: Vec<String> = limits.iter().map(|limit| up(limit.epsilon)).collect();
    (limits.len() > 1).then(|| format!("epsilon {} = {} at delta {delta:e}", each.join(" + "), up(epsilon)))
}

/// Returns the sum after the next release under `limit`, if that release begins a further promise.
pub(in crate::cli) fn next(promises: &Promises, limit: LifetimeLimit) -> Option<String> {
    let mut next = promises.clone();
    next.set_limit(limit.epsilon, limit.delta);
    if next.all().len() > promises.all().len() { sum(&next) } else { None }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::{Delta, Epsilon};

    use super::{Promises, next, sum};
    use crate::fixture::limit;

    fn promised(limits: &[f64]) -> Promises {
        let mut promises = Promises::default();
        for epsilon in limits {
            let epsilon = Epsilon::new(*epsilon).expect("a limit");
            promises.set_limit(epsilon, Delta::new(1e-6).expect("a probability"));
            promises.release();
        }
        promises
    }

    #[test]
    fn one_promise_needs_no_sum() {
        assert_eq!((sum(&promised(&[])), sum(&promised(&[8.0]))), (None, None));
        assert_eq!(next(&promised(&[8.0]), limit(8.0)), None);
        assert_eq!(next(&promised(&[]), limit(8.0)), None, "the first promise is no raise");
    }

    #[test]
    fn raised_limits_are_added() {
        let twice = sum(&promised(&[4.0, 8.0])).expect("two promises");
        assert!(twice.contains(" + ") && twice.contains("12"), "{twice}");
        let coming = next(&promised(&[4.0]), limit(8.0)).expect("a raise");
        assert!(coming.contains("12"), "{coming}");
    }
}
