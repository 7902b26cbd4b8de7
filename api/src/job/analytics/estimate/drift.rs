//! Drift: the distance of one site's histogram from the histogram of the other sites together.
//!
//! A site's k bins have noisy counts n̂ = n + e with independent e ~ N(0, σ²). Its shares p̂ = n̂/N̂ differ from the exact
//! ones by δ = (e − pE)/N̂ with E = Σe, whose covariance is (σ/N̂)²([i = j] − pᵢ − pⱼ + k·pᵢpⱼ). The formulas take p̂ for p,
//! as the delta method does.
//!
//! **Total variation** is ½Σ|p − q|. By the triangle inequality the one of the noisy shares differs from it by at most
//! F = ½Σ|xᵢ| with x = δ of the site − δ of the others. With sᵢ² the variance of xᵢ, F has the mean ½√(2/π)·Σsᵢ. For
//! normal x and y of correlation ρ, Cov(|x|, |y|) = (2/π)·(√(1 − ρ²) + ρ·asin ρ − 1)·sₓs_y ≤ (1 − 2/π)·ρ²·sₓs_y, because
//! the bracket is a power series in ρ² without negative terms, and π/2 − 1 at ρ² = 1. The interval is two-sided around the
//! noisy value, by the mean of F and 1.96 deviations: enough for k = 2, where F is |x|, and for many bins, where it is
//! nearly normal.
//!
//! The **stability index** (population stability index; Siddiqi 2006, chapter 10) is Σ(p − q)·ln(p/q) over shares that are
//! raised to at least [`LEAST_SHARE`], so that an empty bin does not make it infinite. A term is a jointly convex function
//! of p and q that grows with their distance, so over simultaneous intervals of all shares (Bonferroni) it is greatest at
//! the corners, and least where the intervals are nearest.

use std::f64::consts::PI;

use undertone_privacy::special::normal_quantile;

use super::{LEAST_DEVIATIONS, NumberEstimate};
use crate::job::evaluation::NORMAL_95;

/// The share to which a smaller one is raised in the stability index.
pub const LEAST_SHARE: f64 = 0.001;

/// The noisy counts of the bins of a histogram, with the deviation of the noise in each.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::job::analytics) struct NoisyHistogram {
    pub(in crate::job::analytics) counts: Vec<f64>,
    pub(in crate::job::analytics) noise: f64,
}

impl NoisyHistogram {
    /// Returns the sum of histograms of other sites: the noise of each is independent.
    pub(in crate::job::analytics) fn sum<'a>(histograms: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self { counts: Vec::new(), noise: 0.0 };
        for one in histograms {
            sum.counts.resize(one.counts.len(), 0.0);
            sum.counts.iter_mut().zip(&one.counts).for_each(|(sum, count)| *sum += count);
            sum.noise = libm::hypot(sum.noise, one.noise);
        }
        sum
    }

    /// Returns the shares; `None` where the noise hides the number of rows.
    fn shares(&self) -> Option<NoisyShares> {
        let total: f64 = self.counts.iter().sum();
        let hidden = LEAST_DEVIATIONS * self.noise * (self.counts.len() as f64).sqrt();
        let shares = || self.counts.iter().map(|count| count / total).collect();
        (total > 0.0 && total >= hidden).then(|| NoisyShares { shares: shares(), noise: self.noise / total })
    }
}

/// Noisy shares, and σ/N̂.
struct NoisyShares {
    shares: Vec<f64>,
    noise: f64,
}

impl NoisyShares {
    /// Returns the covariance of the errors of two shares.
    fn covariance(&self, first: usize, second: usize) -> f64 {
        let share = |place: usize| self.shares[place].clamp(0.0, 1.0);
        let own = if first == second { 1.0 } else { 0.0 };
        let (one, other) = (share(first), share(second));
        self.noise * self.noise * (own - one - other + self.shares.len() as f64 * one * other)
    }

    /// Returns the ends of the interval of a share, `deviations` wide to each side, raised to the least share.
    fn bounds(&self, place: usize, deviations: f64) -> (f64, f64) {
        let half = deviations * self.covariance(place, place).max(0.0).sqrt();
        let raise = |share: f64| share.clamp(LEAST_SHARE, 1.0);
        (raise(self.shares[place] - half), raise(self.shares[place] + half))
    }
}

/// Returns the total variation and the stability index between two histograms of the same bins.
pub(in crate::job::analytics) fn measure_drift(own: &NoisyHistogram, others: &NoisyHistogram) -> Vec<NumberEstimate> {
    let greatest_index = 2.0 * index_term(1.0, LEAST_SHARE);
    let (Some(own), Some(others)) = (own.shares(), others.shares()) else {
        return vec![
            NumberEstimate::hidden("total variation", (0.0, 1.0)),
            NumberEstimate::hidden("stability index", (0.0, greatest_index)),
        ];
    };
    let half = half_width(&own, &others);
    let pairs = || own.shares.iter().zip(&others.shares);
    let distance = (pairs().map(|(one, other)| (one - other).abs()).sum::<f64>() / 2.0).min(1.0);
    let deviations = normal_quantile(1.0 - 0.05 / (4.0 * own.shares.len() as f64));
    let mut index = 0.0;
    let mut ends = (0.0, 0.0);
    for (place, (one, other)) in pairs().enumerate() {
        index += index_term(one.clamp(LEAST_SHARE, 1.0), other.clamp(LEAST_SHARE, 1.0));
        let (low, high) = (own.bounds(place, deviations), others.bounds(place, deviations));
        let apart = if low.1 < high.0 {
            index_term(low.1, high.0)
        } else if high.1 < low.0 {
            index_term(high.1, low.0)
        } else {
            0.0
        };
        ends.0 += apart;
        ends.1 += index_term(low.1, high.0).max(index_term(low.0, high.1));
    }
    vec![
        NumberEstimate::from_interval(
            "total variation",
            distance,
            ((distance - half).max(0.0), (distance + half).min(1.0)),
        ),
        NumberEstimate::from_interval("stability index", index, ends),
    ]
}

/// Returns (p − q)·ln(p/q).
fn index_term(one: f64, other: f64) -> f64 {
    (one - other) * libm::log(one / other)
}

/// Returns the mean of F and 1.96 deviations.
fn half_width(own: &NoisyShares, others: &NoisyShares) -> f64 {
    let bins = own.shares.len();
    let covariance = |first, second| own.covariance(first, second) + others.covariance(first, second);
    let deviations: Vec<f64> = (0..bins).map(|place| covariance(place, place).max(0.0).sqrt()).collect();
    let mean = (2.0 / PI).sqrt() / 2.0 * deviations.iter().sum::<f64>();
    let mut squares = 0.0;
    for first in 0..bins {
        for second in 0..bins {
            let product = deviations[first] * deviations[second];
            if product > 0.0 {
                squares += covariance(first, second).powi(2) / product;
            }
        }
    }
    mean + NORMAL_95 * ((1.0 - 2.0 / PI) * squares).sqrt() / 2.0
}

impl NumberEstimate {
    /// Returns an estimate of a number of at least 0 with its interval; the noise hides it where the interval begins at 0.
    fn from_interval(label: &str, value: f64, (low, high): (f64, f64)) -> Self {
        let noise = (high - low) / (2.0 * NORMAL_95);
        Self { label: label.to_owned(), value: (low > 0.0).then_some(value), low, high, noise, sampling: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST_SHARE, NoisyHistogram, index_term, measure_drift};

    /// Normal deviates of variance 1, nearly: the sum of 12 uniform numbers less 6.
    struct Normal(u64);

    impl Normal {
        fn draw(&mut self) -> f64 {
            let uniform = |state: &mut u64| {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*state >> 11) as f64 / (1_u64 << 53) as f64
            };
            (0..12).map(|_| uniform(&mut self.0)).sum::<f64>() - 6.0
        }

        fn blur(&mut self, counts: &[f64], noise: f64) -> NoisyHistogram {
            NoisyHistogram { counts: counts.iter().map(|count| count + noise * self.draw()).collect(), noise }
        }
    }

    fn exact(own: &[f64], others: &[f64]) -> [f64; 2] {
        let (all_own, all_others) = (own.iter().sum::<f64>(), others.iter().sum::<f64>());
        let shares = || own.iter().zip(others).map(|(one, other)| (one / all_own, other / all_others));
        let raise = |share: f64| share.max(LEAST_SHARE);
        [
            shares().map(|(one, other)| (one - other).abs()).sum::<f64>() / 2.0,
            shares().map(|(one, other)| index_term(raise(one), raise(other))).sum(),
        ]
    }

    /// The share of releases whose intervals contain the exact numbers, for equal and unequal histograms of few and many
    /// bins.
    #[test]
    fn intervals_of_drift_contain_the_exact_distance() {
        let mut normal = Normal(11);
        for bins in [2_usize, 3, 8, 60] {
            for slope in [0.0, 0.4] {
                let histogram = |slope: f64| -> Vec<f64> {
                    (0..bins).map(|bin| 400.0 * (1.0 + slope * (bin as f64 / bins as f64 - 0.5))).collect()
                };
                let (own, others) = (histogram(slope), histogram(-slope));
                let truth = exact(&own, &others);
                let mut covered = [0_u32; 2];
                for _ in 0..1000 {
                    let numbers = measure_drift(&normal.blur(&own, 20.0), &normal.blur(&others, 15.0));
                    for (covered, (number, truth)) in covered.iter_mut().zip(numbers.iter().zip(truth)) {
                        *covered += u32::from(number.low <= truth && truth <= number.high);
                    }
                }
                assert!(covered.iter().all(|covered| *covered >= 930), "{bins} bins, {slope}: {covered:?}");
            }
        }
    }

    #[test]
    fn drift_beyond_the_noise_has_a_value_and_less_has_none() {
        let histogram = |counts: [f64; 2], noise| NoisyHistogram { counts: counts.to_vec(), noise };
        let numbers = |noise| measure_drift(&histogram([800.0, 200.0], noise), &histogram([500.0, 500.0], noise));
        let [distance, index] = &numbers(5.0)[..] else { panic!("two numbers") };
        assert!((distance.value.unwrap_or_default() - 0.3).abs() < 1e-12, "{distance:?}");
        assert!((index.value.unwrap_or_default() - 0.3 * (1.6_f64.ln() + 2.5_f64.ln())).abs() < 1e-12, "{index:?}");
        let near = measure_drift(&histogram([550.0, 450.0], 80.0), &histogram([500.0, 500.0], 80.0));
        assert!(near.iter().all(|number| number.value.is_none() && number.low <= 0.0), "{near:?}");
        let hidden = numbers(400.0);
        assert!((hidden[0].high - 1.0).abs() < 1e-12 && hidden[1].high > 13.0, "{hidden:?}");
    }

    #[test]
    fn other_sites_are_added_with_their_noise() {
        let one = NoisyHistogram { counts: vec![1.0, 2.0], noise: 3.0 };
        let other = NoisyHistogram { counts: vec![10.0, 20.0], noise: 4.0 };
        let sum = NoisyHistogram::sum([&one, &other].into_iter());
        assert_eq!(sum, NoisyHistogram { counts: vec![11.0, 22.0], noise: 5.0 });
    }
}
