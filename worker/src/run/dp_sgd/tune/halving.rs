//! The allocation of rounds to settings: successive halving (Jamieson and Talwalkar 2016). All settings begin. After
//! each rung the better half resumes, to twice as many rounds; the survivors of the last rung run to their end.

use std::cmp::Ordering;

use undertone_api::job::dp_sgd::SettingMeasure;

/// Returns the numbers of rounds after which a setting of `rounds` rounds is measured: doubling up to all of them, in
/// `halvings` steps if there are enough rounds. All but the last are multiples of the first, at which checkpoints are
/// stored.
pub(super) fn rungs(rounds: u32, halvings: u32) -> Vec<u32> {
    let mut halvings = halvings.min(16);
    while rounds >> halvings == 0 && halvings > 0 {
        halvings -= 1;
    }
    let first = rounds >> halvings;
    (0..halvings).map(|rung| first << rung).chain([rounds]).collect()
}

/// Returns the better half of the results of a rung, rounded up, the best first: by the measure, then by the other
/// figure, then by the order of the search.
pub(super) fn better_half(measure: SettingMeasure, mut results: Vec<(usize, f64, f64)>) -> Vec<usize> {
    results.sort_by(|a, b| compare(measure, *a, *b));
    let count = results.len().div_ceil(2);
    results.into_iter().take(count).map(|(number, ..)| number).collect()
}

/// Compares two results of (number, accuracy, loss), the better first. A number that is predicted has the smaller error
/// with the smaller loss.
pub(super) fn compare(measure: SettingMeasure, a: (usize, f64, f64), b: (usize, f64, f64)) -> Ordering {
    let by_accuracy = b.1.total_cmp(&a.1);
    let by_loss = a.2.total_cmp(&b.2);
    let order = match measure {
        SettingMeasure::Accuracy => by_accuracy.then(by_loss),
        SettingMeasure::Rmse => by_loss.then(by_accuracy),
    };
    order.then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::{SettingMeasure, better_half, rungs};

    #[test]
    fn rungs_double_and_end_with_the_last_round() {
        assert_eq!(rungs(40, 2), [10, 20, 40]);
        assert_eq!(rungs(42, 2), [10, 20, 42]);
        assert_eq!(rungs(3, 2), [1, 3]);
        assert_eq!(rungs(1, 5), [1]);
        assert_eq!(rungs(50, 0), [50]);
        for rounds in 1..200 {
            let rungs = rungs(rounds, 3);
            assert!(rungs.is_sorted_by(|a, b| a < b), "{rungs:?}");
            assert!(rungs[..rungs.len() - 1].iter().all(|rung| rung % rungs[0] == 0), "{rungs:?}");
        }
    }

    #[test]
    fn better_half_is_the_more_accurate_one() {
        let better_half = |results| better_half(SettingMeasure::Accuracy, results);
        assert_eq!(better_half(vec![(0, 0.5, 1.0), (1, 0.7, 2.0), (2, 0.7, 1.5), (3, 0.1, 0.1)]), [2, 1]);
        assert_eq!(better_half(vec![(3, 0.5, f64::NAN)]), [3]);
    }

    #[test]
    fn better_half_of_a_number_has_the_smaller_error() {
        let better_half = |results| better_half(SettingMeasure::Rmse, results);
        assert_eq!(better_half(vec![(0, 0.9, 1.0), (1, 0.7, f64::MAX), (2, 0.2, 0.3), (3, 0.3, 0.3)]), [3, 2]);
    }
}
