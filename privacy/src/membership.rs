//! The power of a membership attack: the area under its ROC curve, with a confidence interval.
//!
//! [`crate::audit`] derives bounds on ε from an attack; this module only measures its power. The scores must be about
//! canaries, or about data whose owner opened them. This module cannot check that; its callers must.

use libm::sqrt;

use crate::audit::clopper_pearson;
use crate::special::normal_quantile;

/// The probability that a member scores higher than another, ties counted half: ½ is chance, 1 is perfect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Auc {
    value: f64,
    variance: f64,
    fewest: u64,
}

impl Auc {
    /// Computes the area from the scores of both sides, higher for "member"; `None` when one side is empty or a score
    /// is NaN.
    ///
    /// The variance is that of `DeLong`, `DeLong` and Clarke-Pearson (1988), by midranks (Sun and Xu 2014).
    pub fn of(members: &[f64], others: &[f64]) -> Option<Self> {
        if members.is_empty() || others.is_empty() || members.iter().chain(others).any(|score| score.is_nan()) {
            return None;
        }
        let all: Vec<f64> = members.iter().chain(others).copied().collect();
        let together = midranks(&all);
        let within = [midranks(members), midranks(others)];
        let m = members.len() as f64;
        let n = others.len() as f64;
        // The share of the other side that each score exceeds, or is exceeded by.
        let beats: Vec<f64> =
            together[..members.len()].iter().zip(&within[0]).map(|(all, own)| (all - own) / n).collect();
        let beaten: Vec<f64> =
            together[members.len()..].iter().zip(&within[1]).map(|(all, own)| 1.0 - (all - own) / m).collect();
        let value = (beats.iter().sum::<f64>() / m).clamp(0.0, 1.0);
        let variance = spread(&beats, value) / m + spread(&beaten, value) / n;
        Some(Self { value, variance, fewest: members.len().min(others.len()) as u64 })
    }

    /// Returns the area.
    pub const fn value(self) -> f64 {
        self.value
    }

    /// Returns the interval of the area at this confidence: normal, within [0, 1]. Where the scores do not determine a
    /// variance (all separated, or all equal), the interval is as wide as Clopper and Pearson's on the smaller side: an
    /// attack that was right about each of n has not been wrong n times, and no more. An invalid confidence gives [0,
    /// 1].
    pub fn interval(self, confidence: f64) -> (f64, f64) {
        if !(confidence > 0.0 && confidence < 1.0) {
            return (0.0, 1.0);
        }
        let half = 0.5 * (1.0 - confidence);
        if self.variance > 0.0 {
            let reach = normal_quantile(1.0 - half) * sqrt(self.variance);
            return ((self.value - reach).max(0.0), (self.value + reach).min(1.0));
        }
        let right = libm::round(self.value * self.fewest as f64) as u64;
        clopper_pearson(right, self.fewest, half)
    }
}

/// Numbers of positive answers on each side at a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtRate {
    /// Members that score above it.
    pub true_positives: u64,
    /// Others that score above it.
    pub false_positives: u64,
}

/// Returns the counts at the lowest threshold at which at most the share `aimed` of `others` score above: the form in
/// which the literature states a true-positive rate at a low false-positive rate (Carlini et al. 2022). With fewer than
/// 1/`aimed` others no false alarm at all is allowed. The threshold is chosen on the others themselves, so the result
/// is descriptive and certifies nothing.
pub fn at_rate(members: &[f64], others: &[f64], aimed: f64) -> AtRate {
    let threshold = threshold(others, aimed);
    let above = |scores: &[f64]| scores.iter().filter(|score| **score > threshold).count() as u64;
    AtRate { true_positives: above(members), false_positives: above(others) }
}

/// Returns the score that at most the share `aimed` of `others` exceed; +∞ without others.
pub fn threshold(others: &[f64], aimed: f64) -> f64 {
    let mut sorted = others.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    // A product like 0.001 · 1000 must not be one short for its rounding.
    let allowed = libm::floor(aimed * sorted.len() as f64 + 1e-9) as usize;
    sorted.get(allowed).copied().unwrap_or(f64::INFINITY)
}

/// Returns a rate k of n with its bounds at this confidence (Clopper and Pearson 1934); for n = 0 the bounds are [0,
/// 1].
pub fn rate_interval(k: u64, n: u64, confidence: f64) -> (f64, f64) {
    if n == 0 || k > n || !(confidence > 0.0 && confidence < 1.0) {
        return (0.0, 1.0);
    }
    clopper_pearson(k, n, 0.5 * (1.0 - confidence))
}

/// Returns ranks from 1; equal scores share the mean of their ranks.
fn midranks(scores: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let mut ranks = vec![0.0; scores.len()];
    let mut start = 0;
    while start < order.len() {
        let alike = order[start..].iter().take_while(|i| scores[**i] <= scores[order[start]]).count();
        let rank = start as f64 + 0.5 * (alike as f64 + 1.0);
        order[start..start + alike].iter().for_each(|i| ranks[*i] = rank);
        start += alike;
    }
    ranks
}

/// Returns the variance of a sample about a known mean.
fn spread(values: &[f64], mean: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{AtRate, Auc, at_rate, rate_interval, threshold};
    use proptest::prelude::*;

    /// Computes the area by counting every pair.
    fn count_pairs(members: &[f64], others: &[f64]) -> f64 {
        let won = |a: f64, b: f64| {
            if a > b {
                1.0
            } else if a < b {
                0.0
            } else {
                0.5
            }
        };
        let sum: f64 = members.iter().flat_map(|a| others.iter().map(move |b| won(*a, *b))).sum();
        sum / (members.len() * others.len()) as f64
    }

    proptest! {
        #[test]
        fn area_equals_share_of_ordered_pairs(
            members in proptest::collection::vec(0u8..20, 1..40),
            others in proptest::collection::vec(0u8..20, 1..40),
        ) {
            let scores = |of: &[u8]| of.iter().map(|score| f64::from(*score)).collect::<Vec<f64>>();
            let members = scores(&members);
            let others = scores(&others);
            let auc = Auc::of(&members, &others).unwrap();
            prop_assert!((auc.value() - count_pairs(&members, &others)).abs() < 1e-12);
            let (low, high) = auc.interval(0.95);
            prop_assert!(0.0 <= low && low <= auc.value() + 1e-12 && auc.value() <= high + 1e-12 && high <= 1.0);
            let back = Auc::of(&others, &members).unwrap();
            prop_assert!((auc.value() + back.value() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn area_and_deviation_match_known_scores() {
        // By hand: of the six pairs five are ordered. V10 = 1, 2/3... of members 3, 1.5; V01 of others 1, 2, 0.5.
        let auc = Auc::of(&[3.0, 1.5], &[1.0, 2.0, 0.5]).unwrap();
        assert!((auc.value() - 5.0 / 6.0).abs() < 1e-15);
        // V10 = (1, 2/3): s² = 1/18, over 2; V01 = (1, 1/2, 1): s² = 1/12, over 3.
        let variance = (1.0_f64 / 18.0) / 2.0 + (1.0 / 12.0) / 3.0;
        let (low, high) = auc.interval(0.95);
        let reach = 1.959_963_984_540_054 * variance.sqrt();
        assert!((low - (5.0 / 6.0 - reach)).abs() < 1e-9 && (high - 1.0).abs() < 1e-15, "{low} {high}");
    }

    #[test]
    fn separated_scores_have_binomial_interval() {
        let few = Auc::of(&[2.0, 3.0], &[0.0, 1.0]).unwrap();
        let many = Auc::of(&[1.0; 500], &(0..500).map(|i| -f64::from(i)).collect::<Vec<_>>()).unwrap();
        assert!((few.value() - 1.0).abs() < 1e-15 && (many.value() - 1.0).abs() < 1e-15);
        assert!((few.interval(0.95).0 - 0.025_f64.sqrt()).abs() < 1e-9, "{:?}", few.interval(0.95));
        assert!(many.interval(0.95).0 > 0.99);
        assert!((Auc::of(&[1.0; 9], &[1.0; 9]).unwrap().value() - 0.5).abs() < 1e-15, "ties are blind");
    }

    #[test]
    fn area_of_empty_or_nan_scores_is_none() {
        assert_eq!(Auc::of(&[], &[1.0]), None);
        assert_eq!(Auc::of(&[1.0], &[]), None);
        assert_eq!(Auc::of(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn threshold_keeps_false_alarm_rate() {
        let others: Vec<f64> = (0..1000).map(f64::from).collect();
        let members = [998.5, 999.5, 10.0];
        assert_eq!(at_rate(&members, &others, 0.001), AtRate { true_positives: 2, false_positives: 1 });
        assert_eq!(at_rate(&members, &others[..999], 0.001), AtRate { true_positives: 2, false_positives: 0 });
        assert_eq!(at_rate(&members, &others, 0.01).false_positives, 10);
        assert!(threshold(&[], 0.5).is_infinite());
        assert_eq!(at_rate(&members, &[], 0.001), AtRate { true_positives: 0, false_positives: 0 });
    }

    #[test]
    fn rate_interval_matches_clopper_pearson() {
        let (low, high) = rate_interval(0, 10, 0.95);
        assert!(low.abs() < 1e-15 && (high - (1.0 - 0.025_f64.powf(0.1))).abs() < 1e-9, "{low} {high}");
        let (low, high) = rate_interval(5, 10, 0.95);
        assert!((low - 0.187_086).abs() < 1e-5 && (high - 0.812_914).abs() < 1e-5, "{low} {high}");
        assert_eq!(rate_interval(0, 0, 0.95), (0.0, 1.0));
    }
}
