//! Limits that were raised after a release: each raise begins a new promise, and the bound for all releases is the sum
//! of the promises.

use undertone_api::budget::PromisedLimit;
use undertone_privacy::ledger::Promises;

use crate::cli::table::round_up;
use crate::site::policy::LifetimeLimit;

/// Returns the sum of several promises in words; `None` for one or none.
pub(in crate::cli) fn describe_sum(promises: &Promises) -> Option<String> {
    let limits = PromisedLimit::from_promises(promises);
    let (epsilon, delta) = PromisedLimit::combine(&limits);
    let each: Vec<String> = limits.iter().map(|limit| round_up(limit.epsilon)).collect();
    (limits.len() > 1).then(|| format!("epsilon {} = {} at delta {delta:e}", each.join(" + "), round_up(epsilon)))
}

/// Returns the sum after the next release under `limit`, if that release begins a further promise.
pub(in crate::cli) fn describe_next(promises: &Promises, limit: LifetimeLimit) -> Option<String> {
    let mut next = promises.clone();
    next.set_limit(limit.epsilon, limit.delta);
    if next.all().len() > promises.all().len() { describe_sum(&next) } else { None }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::{Delta, Epsilon};

    use super::{Promises, describe_next, describe_sum};
    use crate::fixture::limit;

    fn promises(limits: &[f64]) -> Promises {
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
        assert_eq!((describe_sum(&promises(&[])), describe_sum(&promises(&[8.0]))), (None, None));
        assert_eq!(describe_next(&promises(&[8.0]), limit(8.0)), None);
        assert_eq!(describe_next(&promises(&[]), limit(8.0)), None, "the first promise is no raise");
    }

    #[test]
    fn raised_limits_are_added() {
        let twice = describe_sum(&promises(&[4.0, 8.0])).expect("two promises");
        assert!(twice.contains(" + ") && twice.contains("12"), "{twice}");
        let coming = describe_next(&promises(&[4.0]), limit(8.0)).expect("a raise");
        assert!(coming.contains("12"), "{coming}");
    }
}
