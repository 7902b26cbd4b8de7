//! The vectors in which units contribute to a score histogram, and the noise of what is computed from their sum.
//!
//! With independent noise in each bin, the number of units below a score would have the noise of all bins below it. So
//! a unit in bin b contributes column b of the matrix L with Lᵢⱼ = c₍ᵢ₋ⱼ₎ for i ≥ j, where Σ cₖxᵏ = (1 − x)^(−1/2).
//! L² is the matrix of prefix sums, so L·Σ is the cumulative histogram and L⁻¹·Σ the histogram. The noise of every
//! prefix grows with the logarithm of the number of bins instead of its root (Fichtenberger, Henzinger and Upadhyay
//! 2023, "Constant Matters: Fine-grained Error Bound on Differentially Private Continual Observation", section 3).
//!
//! **Sensitivity.** The first column is the longest: n² = Σ c²ₖ over k below the number of bins. Columns are divided by
//! n, so a unit whose weight in the histogram is at most 1 contributes a vector of norm at most 1. A unit with several
//! examples contributes their mean, which is not longer.

/// The square root of the prefix sums over a number of bins, with columns of norm at most 1.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixFactor {
    /// cₖ: the coefficients of (1 − x)^(−1/2).
    root: Vec<f64>,
    /// The coefficients of (1 − x)^(1/2), the inverse.
    inverse: Vec<f64>,
    /// n, the norm of the first column before division.
    norm: f64,
}

impl PrefixFactor {
    /// Returns the factor for a number of bins.
    pub fn new(bins: usize) -> Self {
        let mut root = Vec::with_capacity(bins);
        let mut inverse = Vec::with_capacity(bins);
        let mut own = 1.0;
        let mut inverse_term = 1.0;
        for k in 0..bins {
            if k > 0 {
                own *= (2.0 * k as f64 - 1.0) / (2.0 * k as f64);
                inverse_term *= (2.0 * k as f64 - 3.0) / (2.0 * k as f64);
            }
            root.push(own);
            inverse.push(inverse_term);
        }
        let norm = root.iter().map(|value| value * value).sum::<f64>().sqrt();
        Self { root, inverse, norm }
    }

    /// Returns the number of bins.
    pub const fn bins(&self) -> usize {
        self.root.len()
    }

    /// Adds `weight` times the contribution of a unit in `bin` to `target`, which has one number for each bin.
    ///
    /// # Panics
    /// If `target` has another length, or there is no such bin.
    pub fn add_contribution(&self, bin: usize, weight: f64, target: &mut [f64]) {
        assert_eq!(target.len(), self.bins(), "one number for each bin");
        let scale = weight / self.norm;
        target[bin..].iter_mut().zip(&self.root).for_each(|(target, value)| *target += scale * value);
    }

    /// Returns the histogram of a sum of contributions: n·L⁻¹·Σ. Linear, so the noise of the sum makes no bias.
    pub fn to_histogram(&self, sum: &[f64]) -> Vec<f64> {
        let count = |bin: usize| {
            let terms = sum[..=bin].iter().rev().zip(&self.inverse);
            self.norm * terms.map(|(value, inverse)| value * inverse).sum::<f64>()
        };
        (0..sum.len().min(self.bins())).map(count).collect()
    }

    /// Returns the variance of Σ weightᵢ · countᵢ for noise of variance 1 in each coordinate of the sum:
    /// n²·‖L⁻ᵀ·weights‖².
    pub fn noise_variance(&self, weights: &[f64]) -> f64 {
        let coordinate = |start: usize| {
            let terms = weights[start..].iter().zip(&self.inverse);
            terms.map(|(weight, inverse)| weight * inverse).sum::<f64>()
        };
        let square = (0..weights.len()).map(coordinate).map(|value| value * value).sum::<f64>();
        self.norm * self.norm * square
    }
}

#[cfg(test)]
mod tests {
    use super::PrefixFactor;

    fn contribution(factor: &PrefixFactor, bin: usize) -> Vec<f64> {
        let mut vector = vec![0.0; factor.bins()];
        factor.add_contribution(bin, 1.0, &mut vector);
        vector
    }

    #[test]
    fn three_bins_have_coefficients_by_hand() {
        let factor = PrefixFactor::new(3);
        // 1, 1/2, 3/8 and 1, −1/2, −1/8.
        let norm = (1.0_f64 + 0.25 + 9.0 / 64.0).sqrt();
        let expected = [1.0 / norm, 0.5 / norm, 0.375 / norm];
        let own = contribution(&factor, 0);
        assert!(own.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{own:?}");
        // The last bin of three: its count is n · (y₂ − y₁/2 − y₀/8).
        let variance = norm * norm * (1.0 + 0.25 + 1.0 / 64.0);
        assert!((factor.noise_variance(&[0.0, 0.0, 1.0]) - variance).abs() < 1e-14);
    }

    #[test]
    fn sum_of_contributions_decodes_to_the_histogram() {
        let factor = PrefixFactor::new(64);
        let mut sum = vec![0.0; 64];
        let counts: Vec<f64> = (0..64).map(|bin| f64::from(bin * 7 % 11)).collect();
        for (bin, count) in counts.iter().enumerate() {
            factor.add_contribution(bin, *count, &mut sum);
        }
        let decoded = factor.to_histogram(&sum);
        assert!(decoded.iter().zip(&counts).all(|(a, b)| (a - b).abs() < 1e-9), "{decoded:?}");
    }

    #[test]
    fn contribution_of_any_bin_has_norm_at_most_one() {
        for bins in [1, 2, 64, 257] {
            let factor = PrefixFactor::new(bins);
            for bin in 0..bins {
                let norm = contribution(&factor, bin).iter().map(|value| value * value).sum::<f64>();
                assert!(norm <= 1.0 + 1e-12 && (bin > 0 || norm > 1.0 - 1e-12), "{bins} {bin} {norm}");
            }
        }
    }

    #[test]
    fn noise_of_a_prefix_grows_slowly() {
        for (bins, most) in [(64, 2.5), (256, 2.9)] {
            let factor = PrefixFactor::new(bins);
            for end in 1..=bins {
                let weights: Vec<f64> = (0..bins).map(|bin| f64::from(u8::from(bin < end))).collect();
                assert!(factor.noise_variance(&weights).sqrt() < most, "{bins} {end}");
            }
        }
    }
}
