//! The greatest value of a function of the number of copies, from upper bounds on intervals: branch and bound.

/// Numbers of copies from the first to the last; without a last, all from the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopiesInterval {
    /// A whole number.
    pub(super) first: f64,
    /// A whole number, at least the first.
    pub(super) last: Option<f64>,
}

impl CopiesInterval {
    const fn single(copies: f64) -> Self {
        Self { first: copies, last: Some(copies) }
    }
}

/// Number of splits after which the bounds are taken as they are.
const MOST_SPLITS: u32 = 4000;
/// Every number of copies below this is a whole number of f64.
const MOST_COPIES: f64 = 4_503_599_627_370_496.0;

/// Returns an upper bound of the greatest value over all numbers of copies from `first` on. `bound` returns an upper bound on an
/// interval, which tends to the value itself on intervals of one number. The result exceeds the greatest bound of one number by at most
/// the relative `tolerance`, unless the splits run out.
pub(super) fn greatest_over_copies(first: f64, tolerance: f64, bound: impl Fn(CopiesInterval) -> f64) -> f64 {
    let mut reached = bound(CopiesInterval::single(first));
    let mut greatest = reached;
    let mut pending = Vec::new();
    let mut start = first + 1.0;
    loop {
        let rest = bound(CopiesInterval { first: start, last: None });
        if rest <= reached || start > MOST_COPIES {
            greatest = f64::max(greatest, rest);
            break;
        }
        let end = 2.0 * start;
        reached = reached.max(bound(CopiesInterval::single(end)));
        pending.push((start, end));
        start = end + 1.0;
    }
    let mut splits = 0;
    while let Some((first, last)) = pending.pop() {
        let most = bound(CopiesInterval { first, last: Some(last) });
        if most <= reached * (1.0 + tolerance) || first >= last || splits >= MOST_SPLITS {
            greatest = greatest.max(most);
            continue;
        }
        splits += 1;
        let middle = libm::floor(0.5 * (first + last));
        reached = reached.max(bound(CopiesInterval::single(middle)));
        pending.push((first, middle));
        pending.push((middle + 1.0, last));
    }
    greatest
}
