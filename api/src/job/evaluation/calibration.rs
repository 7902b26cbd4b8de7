//! Calibration: scores compared with the rates at which their class occurs.
//!
//! The bins are joined into up to ten groups of about equally many units, by the noisy counts themselves (adaptive
//! calibration error; Nixon et al. 2019, "Measuring calibration in deep learning"; Roelofs et al. 2022, "Mitigating bias
//! in calibration error estimation"). In group g, the excess D = Σ Pᵢ(1 − cᵢ) − Nᵢcᵢ, with cᵢ the probability in the
//! middle of bin i, is the number of positives beyond those that the scores promise. The expected calibration error is
//! Σ |D|/n over the groups that the report states.
//!
//! The absolute value of a noisy excess is too large on average. So |D| is replaced by the excess t of which a noisy
//! observation has that mean: s√(2/π)·e^(−t²/2s²) + t·erf(t/s√2) = |D|, the mean of a folded normal distribution (Leone,
//! Nelson and Nottingham 1961), or 0 where no excess has so small a mean. The bias of t itself, by
//! the same law at t (parametric bootstrap; Efron and Tibshirani 1993, section 10.2), vanishes where |D| exceeds a few
//! s. It extends the interval downward, so that the interval of nearly perfect scores reaches 0: there it is wider than
//! it would have to be.

use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

use serde::{Deserialize, Serialize};

use super::bins::{ScoreBins, to_probability};
use super::estimate::{MetricEstimate, MetricInfluence, NoisyCounts};

/// The most groups.
const GROUPS: f64 = 10.0;
/// The deviations of noise that the units of a group exceed.
const GROUP_DEVIATIONS: f64 = 8.0;

/// The scores of one group, and the rate of the class among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CalibrationGroup {
    /// The first bin of the group.
    pub first_bin: u32,
    /// The last bin of the group.
    pub last_bin: u32,
    /// The probability at the lower edge of the group; 0 for the first.
    pub from: f64,
    /// The probability at the upper edge; 1 for the last.
    pub to: f64,
    /// The noisy number of units.
    pub units: f64,
    /// The mean score: a probability.
    pub score: f64,
    /// The rate of the class.
    pub rate: MetricEstimate,
}

/// Joins bins into groups of about equally many units; each is a range of bins. Empty without enough units.
fn join_bins(counts: &NoisyCounts<'_>) -> Vec<std::ops::Range<usize>> {
    let bins = counts.positives.len();
    let all = counts.total_positives() + counts.total_negatives();
    let needed = (all / GROUPS).max(GROUP_DEVIATIONS * SQRT_2 * counts.total_deviation());
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    let mut start = 0;
    let mut units = 0.0;
    let mut rest = all;
    for bin in 0..bins {
        let own = counts.positives[bin] + counts.negatives[bin];
        units += own;
        rest -= own;
        // The remaining bins must suffice for another group.
        if units >= needed && rest >= 0.5 * needed {
            groups.push(start..bin + 1);
            start = bin + 1;
            units = 0.0;
        }
    }
    if all >= needed {
        groups.push(start..bins);
    }
    groups
}

/// The counts of one group.
struct GroupCounts {
    bins: std::ops::Range<usize>,
    units: f64,
    positives: f64,
    excess: f64,
}

/// Returns the influence that has these values within a range of bins, and 0 elsewhere.
fn influence_within(
    bins: usize,
    range: &std::ops::Range<usize>,
    positive: impl Fn(usize) -> f64,
    negative: impl Fn(usize) -> f64,
) -> MetricInfluence {
    let within = |value: &dyn Fn(usize) -> f64| {
        (0..bins).map(|bin| if range.contains(&bin) { value(bin) } else { 0.0 }).collect()
    };
    MetricInfluence { positives: within(&positive), negatives: within(&negative) }
}

/// Returns the t of which a normal observation of deviation `deviation` has the mean absolute value `mean`.
fn unfold_mean(mean: f64, deviation: f64) -> f64 {
    let folded = |t: f64| {
        let ratio = t / (deviation * SQRT_2);
        deviation * FRAC_2_SQRT_PI / SQRT_2 * libm::exp(-ratio * ratio) + t * libm::erf(ratio)
    };
    if deviation <= 0.0 {
        return mean;
    }
    let mut low = 0.0;
    let mut high = mean;
    if folded(low) >= mean {
        return 0.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if folded(middle) < mean { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Returns the bias of an unfolded value where the true excess is `excess`: the mean over N(excess, deviation) by the
/// midpoint rule on six deviations to each side.
fn unfolding_bias(excess: f64, deviation: f64) -> f64 {
    const STRIPS: u32 = 48;
    if deviation <= 0.0 || excess > 4.0 * deviation {
        return 0.0;
    }
    let mut mean = 0.0;
    let mut weight = 0.0;
    for strip in 0..STRIPS {
        let place = (f64::from(strip) + 0.5) / f64::from(STRIPS) * 12.0 - 6.0;
        let density = libm::exp(-0.5 * place * place);
        mean += density * unfold_mean((excess + place * deviation).abs(), deviation);
        weight += density;
    }
    (mean / weight - excess).max(0.0)
}

/// Returns the expected calibration error and the groups; `None` when there are too few units for the noise.
pub(super) fn estimate_calibration(
    counts: &NoisyCounts<'_>,
    bins: ScoreBins,
) -> Option<(MetricEstimate, Vec<CalibrationGroup>)> {
    let length = counts.positives.len();
    let all = counts.total_positives() + counts.total_negatives();
    let score = |bin: usize| bins.middle_probability(bin);
    let mut groups = Vec::new();
    let mut signs = vec![0.0; length];
    let mut error = 0.0;
    let mut bias = 0.0;
    for range in join_bins(counts) {
        let group = count_group(counts, range, &score);
        let influence = influence_within(length, &group.bins, |bin| 1.0 - score(bin), |bin| -score(bin));
        let variance = counts.estimate(0.0, &influence)?;
        let deviation = (variance.sampling * variance.sampling + variance.noise * variance.noise).sqrt();
        let excess = unfold_mean(group.excess.abs(), deviation);
        error += excess / all;
        bias += unfolding_bias(excess, deviation) / all;
        signs[group.bins.clone()].fill(group.excess.signum());
        groups.push(describe_group(counts, bins, &group)?);
    }
    if groups.is_empty() {
        return None;
    }
    let influence = MetricInfluence {
        positives: (0..length).map(|bin| (signs[bin] * (1.0 - score(bin)) - error) / all).collect(),
        negatives: (0..length).map(|bin| (-signs[bin] * score(bin) - error) / all).collect(),
    };
    let estimate = counts.estimate(error, &influence)?;
    Some((MetricEstimate { low: (estimate.low - bias).max(0.0), ..estimate }, groups))
}

fn count_group(counts: &NoisyCounts<'_>, bins: std::ops::Range<usize>, score: &impl Fn(usize) -> f64) -> GroupCounts {
    let positives = counts.positives[bins.clone()].iter().sum::<f64>();
    let negatives = counts.negatives[bins.clone()].iter().sum::<f64>();
    let excess = bins
        .clone()
        .map(|bin| counts.positives[bin] * (1.0 - score(bin)) - counts.negatives[bin] * score(bin))
        .sum::<f64>();
    GroupCounts { bins, units: positives + negatives, positives, excess }
}

fn describe_group(counts: &NoisyCounts<'_>, bins: ScoreBins, group: &GroupCounts) -> Option<CalibrationGroup> {
    let GroupCounts { bins: range, units, positives, excess } = group;
    let rate = positives / units;
    let influence = influence_within(counts.positives.len(), range, |_| (1.0 - rate) / units, |_| -rate / units);
    let from = if range.start == 0 { 0.0 } else { to_probability(bins.edge(range.start)) };
    let to = if range.end == bins.len() { 1.0 } else { to_probability(bins.edge(range.end)) };
    Some(CalibrationGroup {
        first_bin: range.start as u32,
        last_bin: range.end as u32 - 1,
        from,
        to,
        units: *units,
        score: ((positives - excess) / units).clamp(0.0, 1.0),
        rate: counts.estimate(rate, &influence)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{estimate_calibration, unfold_mean};
    use crate::job::evaluation::bins::ScoreBins;
    use crate::job::evaluation::estimate::NoisyCounts;
    use crate::job::evaluation::factor::PrefixFactor;

    const BINS: ScoreBins = ScoreBins { count: 8, width: 1.0 };

    fn calibration(positives: &[f64], negatives: &[f64]) -> (f64, usize) {
        let factor = PrefixFactor::new(8);
        let counts = NoisyCounts { factor: &factor, positives, negatives, variance: 0.0 };
        let (error, groups) = estimate_calibration(&counts, BINS).expect("there are units");
        assert_eq!((groups[0].first_bin, groups.last().expect("there is one").last_bin), (0, 7), "all bins");
        assert!(groups.windows(2).all(|pair| pair[0].last_bin + 1 == pair[1].first_bin));
        (error.value, groups.len())
    }

    #[test]
    fn calibrated_scores_have_no_error() {
        let score = |bin: usize| BINS.middle_probability(bin);
        let positives: Vec<f64> = (0..8).map(|bin| 1000.0 * score(bin)).collect();
        let negatives: Vec<f64> = (0..8).map(|bin| 1000.0 * (1.0 - score(bin))).collect();
        let (error, groups) = calibration(&positives, &negatives);
        assert!(error.abs() < 1e-9 && groups == 8, "{error} {groups}");
    }

    #[test]
    fn overconfident_score_has_its_excess_as_error() {
        // All 10,000 units at the score of the last bin, half of them positive.
        let mut positives = [0.0; 8];
        let mut negatives = [0.0; 8];
        (positives[7], negatives[7]) = (5000.0, 5000.0);
        let (error, _) = calibration(&positives, &negatives);
        assert!((error - (BINS.middle_probability(7) - 0.5)).abs() < 1e-6, "{error}");
    }

    #[test]
    fn folded_mean_is_inverted() {
        // E|N(0, 1)| = √(2/π); far from zero folding changes nothing.
        assert!(unfold_mean(0.797_884, 1.0).abs() < 1e-2 && unfold_mean(0.5, 1.0).abs() < f64::EPSILON);
        assert!((unfold_mean(9.0, 1.0) - 9.0).abs() < 1e-9 && (unfold_mean(3.0, 0.0) - 3.0).abs() < f64::EPSILON);
        // E|N(1, 1)| = 1.166630941…
        assert!((unfold_mean(1.166_630_941_4, 1.0) - 1.0).abs() < 1e-8);
    }
}
