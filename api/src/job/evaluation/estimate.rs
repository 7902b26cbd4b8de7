//! Numbers computed from noisy histograms, each with its 95 % interval.
//!
//! Every metric is a smooth function of counts. Its influence (the derivative by each count) gives both parts of its
//! variance to first order (delta method; Efron and Tibshirani 1993, chapter 21):
//!
//! * *sampling*: Σ countᵢ · influenceᵢ², because units are independent draws. For the AUROC this is the estimate of
//!   DeLong, DeLong and Clarke-Pearson 1988, with counts in place of examples. A unit with several examples has a mean
//!   in place of a draw, whose variance is at most as large.
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
}
