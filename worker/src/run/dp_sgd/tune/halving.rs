//! The allocation of rounds to settings: successive halving (Jamieson and Talwalkar 2016). All settings begin. After
//! each rung the better half resumes, to twice as many rounds; the survivors of the last rung run to their end.

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

/// Returns the better half of the results of a rung, rounded up, the best first: by accuracy, then by loss, then by the
/// order of the search.
pub(super) fn better_half(mut results: Vec<(usize, f64, f64)>) -> Vec<usize> {
    results.sort_by(|a, b| compare(*a, *b));
    let count = results.len().div_ceil(2);
    results.into_iter().take(count).map(|(number, ..)| number).collect()
}

/// Compares two results of (number, accuracy, loss), the better first.
pub(super) fn compare(a: (usize, f64, f64), b: (usize, f64, f64)) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.2.total_cmp(&b.2)).then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::{better_half, rungs};

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
        assert_eq!(better_half(vec![(0, 0.5, 1.0), (1, 0.7, 2.0), (2, 0.7, 1.5), (3, 0.1, 0.1)]), [2, 1]);
        assert_eq!(better_half(vec![(3, 0.5, f64::NAN)]), [3]);
    }
}
