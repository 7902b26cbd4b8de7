//! Quantiles from a noisy binary tree.
//!
//! Each node of the tree counts the rows in its part of the range, with noise of the same variance. A child's count and
//! its sibling's add to their parent's, so the counts are estimated together by least squares in two passes (Hay,
//! Rastogi, Miklau and Suciu 2010, "Boosting the accuracy of differentially private histograms through consistency",
//! theorem 3). Ranks are sums of at most L nodes of one level each, and least squares does not raise their variance; so
//! the deviation of a rank is at most τ√L. The tree has no node for all rows: its total is that of the first level.

/// A tree of consistent counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RangeTree {
    /// The number of rows left of each leaf, and at the end the number of all: never decreasing.
    ranks: Vec<f64>,
    /// τ√L.
    deviation: f64,
}

/// A quantile in leaves from the beginning of the range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TreeQuantile {
    pub(super) place: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// The standard deviation from sampling.
    pub(super) sampling: f64,
}

impl RangeTree {
    /// Returns the tree of noisy counts: the levels 1 to `levels`, level ℓ with 2^ℓ nodes, each with noise of deviation
    /// `noise`. Missing counts are zero.
    pub(super) fn new(counts: &[f64], levels: u32, noise: f64) -> Self {
        let leaves = estimate_leaves(counts, levels);
        let mut ranks = vec![0.0];
        let mut sum = 0.0;
        let mut greatest = 0.0_f64;
        for leaf in leaves {
            sum += leaf;
            greatest = greatest.max(sum);
            ranks.push(greatest);
        }
        Self { ranks, deviation: noise * f64::from(levels).sqrt() }
    }

    /// Returns the number of all rows.
    pub(super) fn total(&self) -> f64 {
        self.ranks.last().copied().unwrap_or_default()
    }

    /// Returns a quantile with its 95 % interval; `None` with too few rows for the noise. A unit has at most `rows` rows.
    ///
    /// The rank of the quantile, F − p(F + G) = (1 − p)F − pG with F and G the rows left and right of it, has a variance
    /// of at most ((1 − p)² + p²)·Lτ².
    pub(super) fn find_quantile(&self, probability: f64, rows: f64) -> Option<TreeQuantile> {
        let total = self.total();
        if total < super::estimate::LEAST_DEVIATIONS * self.deviation || total <= 0.0 {
            return None;
        }
        let target = probability * total;
        let other = 1.0 - probability;
        let half =
            crate::job::evaluation::NORMAL_95 * self.deviation * (other * other + probability * probability).sqrt();
        let sampling = (probability * other * total * rows).sqrt();
        let width = self.find_place(target + sampling) - self.find_place(target - sampling);
        Some(TreeQuantile {
            place: self.find_place(target),
            low: self.find_first(target - half),
            high: self.find_last(target + half),
            sampling: 0.5 * width,
        })
    }

    /// Returns the place at which the rank reaches `target`, with rows spread evenly in a leaf.
    fn find_place(&self, target: f64) -> f64 {
        let end = self.ranks.partition_point(|rank| *rank < target).min(self.ranks.len() - 1);
        let Some(start) = end.checked_sub(1) else { return 0.0 };
        let rows = self.ranks[end] - self.ranks[start];
        let part = if rows > 0.0 { ((target - self.ranks[start]) / rows).clamp(0.0, 1.0) } else { 1.0 };
        start as f64 + part
    }

    /// Returns the beginning of the leaf in which the rank reaches `target`.
    fn find_first(&self, target: f64) -> f64 {
        libm::floor(self.find_place(target))
    }

    /// Returns the end of the leaf in which the rank reaches `target`.
    fn find_last(&self, target: f64) -> f64 {
        let last = (self.ranks.len() - 1) as f64;
        if target >= self.total() { last } else { libm::ceil(self.find_place(target)).max(1.0) }
    }
}

/// Returns the leaves of the least-squares estimate.
fn estimate_leaves(counts: &[f64], levels: u32) -> Vec<f64> {
    let count = |level: u32, node: usize| counts.get((1_usize << level) - 2 + node).copied().unwrap_or_default();
    // From the leaves up: each node's own count and its children's, weighted by their variances.
    let mut up: Vec<Vec<f64>> = vec![Vec::new(); levels as usize + 1];
    for level in (1..=levels).rev() {
        let height = levels - level + 1;
        let power = libm::exp2(f64::from(height));
        let own_weight = (power - power / 2.0) / (power - 1.0);
        up[level as usize] = (0..1_usize << level)
            .map(|node| {
                let own = count(level, node);
                match up.get(level as usize + 1) {
                    Some(below) if level < levels => {
                        own_weight * own + (1.0 - own_weight) * (below[2 * node] + below[2 * node + 1])
                    }
                    _ => own,
                }
            })
            .collect();
    }
    // From the first level down: what the parent has beyond its children is divided among them.
    let mut parents = up[1].clone();
    for level in 2..=levels {
        let own = &up[level as usize];
        parents = (0..own.len())
            .map(|node| {
                let rest = parents[node / 2] - own[node] - own[node ^ 1];
                own[node] + rest / 2.0
            })
            .collect();
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::{RangeTree, estimate_leaves};

    fn tree(leaves: &[f64]) -> Vec<f64> {
        let levels = leaves.len().trailing_zeros();
        (1..=levels).flat_map(|level| leaves.chunks(leaves.len() >> level).map(|part| part.iter().sum())).collect()
    }

    #[test]
    fn counts_without_noise_are_kept() {
        let leaves: Vec<f64> = (0..16).map(|leaf| f64::from(leaf * leaf % 7)).collect();
        let estimate = estimate_leaves(&tree(&leaves), 4);
        assert!(estimate.iter().zip(&leaves).all(|(a, b)| (a - b).abs() < 1e-9), "{estimate:?}");
    }

    /// The estimate is that of least squares: its residuals are orthogonal to every leaf.
    #[test]
    fn estimate_solves_the_normal_equations() {
        let noisy: Vec<f64> = (0..14_u32).map(|node| f64::from(node.wrapping_mul(2_654_435_761) >> 24)).collect();
        let fit = tree(&estimate_leaves(&noisy, 3));
        for leaf in 0..8_usize {
            let residual: f64 = (1..=3_usize)
                .map(|level| {
                    let node = (1 << level) - 2 + (leaf >> (3 - level));
                    noisy[node] - fit[node]
                })
                .sum();
            assert!(residual.abs() < 1e-9, "leaf {leaf}: {residual}");
        }
    }

    #[test]
    fn quantiles_of_an_even_range_are_even() {
        let tree = RangeTree::new(&tree(&[100.0; 16]), 4, 1.0);
        let median = tree.find_quantile(0.5, 1.0).expect("enough rows");
        assert!((median.place - 8.0).abs() < 1e-9 && median.low <= 8.0 && median.high >= 8.0, "{median:?}");
        assert!((median.sampling - 0.2).abs() < 1e-9, "√400 rows of 100 in a leaf");
        assert_eq!(RangeTree::new(&[2.0, 2.0, 1.0, 1.0, 1.0, 1.0], 2, 1.0).find_quantile(0.5, 1.0), None);
    }
}
