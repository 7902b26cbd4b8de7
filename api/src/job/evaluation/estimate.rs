//! Numbers computed from noisy histograms, each with its 95 % interval.
//!
//! Every metric is a smooth function of counts. Its influence (the derivative by each count) gives both parts of its
//! variance to first order (delta method; Efron and Tibshirani 1993, chapter 21):
//!
//! * *sampling*: Σ countᵢ · influenceᵢ², because units are independent draws. For the AUROC this is the estimate of
//!   DeLong, DeLong and Clarke-Pearson 1988, with counts in place of examples. A unit with several examples has a mean
//!   in place of a draw, whose variance is at most as large.
//!   A share has the interval of Agresti and Coull in place of it ([`MetricEstimate::from_counts`]).
//! * *noise*: the known variance of the noise along the influence ([`PrefixFactor::noise_variance`]).
//!
//! Nothing is clipped before the value is computed: counts may be negative, so that their errors cancel.

use serde::{Deserialize, Serialize};

use super::factor::PrefixFactor;

/// The normal quantile of a two-sided 95 % interval.
pub const NORMAL_95: f64 = 1.959_963_984_540_054;

/// A metric with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MetricEstimate {
    /// The estimate. Noise may carry it slightly beyond the range of the metric; it is not clipped.
    pub value: f64,
    /// The lower end of the 95 % interval, within the range of the metric.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The standard deviation from sampling: other test data of the same kind.
    pub sampling: f64,
    /// The standard deviation from the noise of the releases.
    pub noise: f64,
}

impl MetricEstimate {
    /// Returns an estimate of a share (0 to 1) from its two variances; `None` if a number is not finite.
    pub fn new(value: f64, sampling_variance: f64, noise_variance: f64) -> Option<Self> {
        let sampling = sampling_variance.max(0.0).sqrt();
        let noise = noise_variance.max(0.0).sqrt();
        let half = NORMAL_95 * (sampling * sampling + noise * noise).sqrt();
        let is_finite = value.is_finite() && half.is_finite();
        is_finite.then(|| Self {
            value,
            low: (value - half).clamp(0.0, 1.0),
            high: (value + half).clamp(0.0, 1.0),
            sampling,
            noise,
        })
    }

    /// Returns an estimate of the share of correct units from both counts, which noise may have carried below 0; `None`
    /// if their sum is not above 0, or a number is not finite.
    ///
    /// The interval is that of Agresti and Coull 1998, "Approximate is better than exact": two successes and two failures
    /// are added (z²/2 of each), so that it has a width where every unit, or no unit, is correct.
    pub fn from_counts(correct: f64, wrong: f64, noise_variance: f64) -> Option<Self> {
        const ADDED: f64 = NORMAL_95 * NORMAL_95 / 2.0;
        let all = correct + wrong;
        if !(all.is_finite() && all > 0.0) {
            return None;
        }
        let enlarged = all + 2.0 * ADDED;
        let center = (correct + ADDED) / enlarged;
        let share = center.clamp(ADDED / enlarged, 1.0 - ADDED / enlarged);
        let sampling_variance = share * (1.0 - share) / enlarged;
        let shrinkage = all / enlarged;
        let estimate = Self::new(center, sampling_variance, noise_variance * shrinkage * shrinkage)?;
        Some(Self { value: correct / all, noise: noise_variance.max(0.0).sqrt(), ..estimate })
    }

    /// Returns whether the interval contains a number.
    pub fn covers(&self, truth: f64) -> bool {
        (self.low..=self.high).contains(&truth)
    }
}

/// The derivatives of a metric by the counts of each bin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MetricInfluence {
    pub(super) positives: Vec<f64>,
    pub(super) negatives: Vec<f64>,
}

/// The two noisy histograms of one class, with the law of their noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoisyCounts<'a> {
    pub(super) factor: &'a PrefixFactor,
    pub(super) positives: &'a [f64],
    pub(super) negatives: &'a [f64],
    /// The variance of the noise in each coordinate of the sums.
    pub(super) variance: f64,
}

impl NoisyCounts<'_> {
    /// Returns the total of the positives.
    pub(super) fn total_positives(&self) -> f64 {
        self.positives.iter().sum()
    }

    /// Returns the total of the negatives.
    pub(super) fn total_negatives(&self) -> f64 {
        self.negatives.iter().sum()
    }

    /// Returns the deviation of the noise of a total.
    pub(super) fn total_deviation(&self) -> f64 {
        (self.variance * self.factor.noise_variance(&vec![1.0; self.factor.bins()])).sqrt()
    }

    /// Returns the variance of the noise along an influence.
    pub(super) fn noise_variance(&self, influence: &MetricInfluence) -> f64 {
        let gain = self.factor.noise_variance(&influence.positives) + self.factor.noise_variance(&influence.negatives);
        self.variance * gain
    }

    /// Returns the estimate of a metric with this value and influence.
    pub(super) fn estimate(&self, value: f64, influence: &MetricInfluence) -> Option<MetricEstimate> {
        let square = |counts: &[f64], weights: &[f64]| {
            counts.iter().zip(weights).map(|(count, weight)| count * weight * weight).sum::<f64>()
        };
        let sampling = square(self.positives, &influence.positives) + square(self.negatives, &influence.negatives);
        MetricEstimate::new(value, sampling, self.noise_variance(influence))
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricEstimate, NORMAL_95};

    #[test]
    fn interval_combines_both_variances_and_stays_in_range() {
        let estimate = MetricEstimate::new(0.9, 0.0009, 0.0016).expect("finite");
        assert!((estimate.low - (0.9 - 0.05 * NORMAL_95)).abs() < 1e-15);
        assert!((estimate.sampling - 0.03).abs() < 1e-15 && (estimate.noise - 0.04).abs() < 1e-15);
        let above = MetricEstimate::new(1.01, 1e-4, 0.0).expect("finite");
        assert!((above.value - 1.01).abs() < 1e-15 && (above.high - 1.0).abs() < 1e-15, "not clipped: {above:?}");
        assert_eq!(MetricEstimate::new(f64::NAN, 0.0, 0.0), None);
        assert!(estimate.covers(0.85) && !estimate.covers(0.7));
    }

    #[test]
    fn share_of_all_units_has_an_interval() {
        // Agresti and Coull's interval of 20 of 20: 0.919 ± 0.109.
        let all = MetricEstimate::from_counts(20.0, 0.0, 0.0).expect("finite");
        assert!((all.low - 0.8100).abs() < 1e-3 && (all.high - 1.0).abs() < 1e-15, "{all:?}");
        assert!((all.value - 1.0).abs() < 1e-15 && all.sampling > 0.05, "{all:?}");
        let beyond = MetricEstimate::from_counts(20.5, -0.5, 1e-4).expect("finite");
        assert!(beyond.sampling >= all.sampling - 1e-12 && beyond.low > 0.75 && beyond.high <= 1.0, "{beyond:?}");
        let none = MetricEstimate::from_counts(-0.5, 20.5, 1e-4).expect("finite");
        assert!((none.sampling - beyond.sampling).abs() < 1e-12 && none.high > 0.1, "{none:?}");
        // In the middle of many units it is the interval of the normal distribution.
        let half = MetricEstimate::from_counts(5000.0, 5000.0, 0.0).expect("finite");
        assert!((half.high - half.low - 2.0 * NORMAL_95 * 0.005).abs() < 1e-5, "{half:?}");
        assert_eq!(MetricEstimate::from_counts(0.0, 0.0, 0.0), None);
    }

    #[test]
    fn interval_of_a_share_covers_the_truth_near_the_boundary() {
        // The exact coverage of binomial counts of 20 units.
        for truth in [0.9, 0.95, 0.98] {
            let mut coverage = 0.0;
            let mut probability = f64::powi(1.0 - truth, 20);
            for correct in 0..=20_u32 {
                let counts = (f64::from(correct), f64::from(20 - correct));
                let estimate = MetricEstimate::from_counts(counts.0, counts.1, 0.0).expect("finite");
                coverage += if estimate.covers(truth) { probability } else { 0.0 };
                probability *= f64::from(20 - correct) / f64::from(correct + 1) * truth / (1.0 - truth);
            }
            assert!(coverage > 0.92, "{truth}: {coverage}");
        }
    }
}
