//! Metrics of the order of scores: AUROC, area under the precision-recall curve, operating points.
//!
//! With positives Pᵢ and negatives Nᵢ in bin i, totals P and N, and half of a bin on each side of its middle:
//!
//! * AUROC = Σ Pᵢ·F(i)/P with F(i) = (N below i + Nᵢ/2)/N: the Mann-Whitney statistic, ties as half. Influence by Pᵢ:
//!   (F(i) − A)/P, by Nᵢ: (G(i) − A)/N with G the share of positives above (DeLong et al. 1988).
//! * PR-AUC = Σ Pᵢ·π(i)/P with π(i) the precision at the middle of bin i: average precision (Boyd, Eng and Page 2013,
//!   "Area under the precision-recall curve: point estimates and confidence intervals"). Its prevalence is that of the
//!   test data. The highest bins form one bin, as few as contain enough units for their noise.
//! * Operating point: the sensitivity at the score above which the share 1 − specificity of the negatives lies, linear
//!   within a bin. Its influence has the slope of the ROC curve (Pepe 2003, "The statistical evaluation of medical tests
//!   for classification and prediction", section 5.2).

use super::estimate::{MetricEstimate, MetricInfluence, NoisyCounts};

/// The deviations of noise that the highest bins must exceed before their precision is read.
const HEAD_DEVIATIONS: f64 = 5.0;
/// The deviations of its noise that the number of positives must exceed for an area under the precision-recall curve.
const LEAST_PR_DEVIATIONS: f64 = 30.0;
/// The deviations of noise that the negatives above a threshold must exceed: below that, the bias of the sensitivity is
/// a notable part of its interval.
const LEAST_TAIL_DEVIATIONS: f64 = 20.0;
/// The bins on each side over which the slope of the ROC curve is averaged.
const SLOPE_BINS: usize = 3;

/// Returns the count below the middle of each bin.
fn middles_below(counts: &[f64]) -> Vec<f64> {
    let mut below = 0.0;
    let mut middles = Vec::with_capacity(counts.len());
    for count in counts {
        middles.push(below + 0.5 * count);
        below += count;
    }
    middles
}

/// Returns the AUROC.
pub(super) fn estimate_auroc(counts: &NoisyCounts<'_>) -> Option<MetricEstimate> {
    let positives = counts.total_positives();
    let negatives = counts.total_negatives();
    let negatives_below = middles_below(counts.negatives);
    let positives_below = middles_below(counts.positives);
    let products = counts.positives.iter().zip(&negatives_below).map(|(count, below)| count * below).sum::<f64>();
    let area = products / (positives * negatives);
    let influence = MetricInfluence {
        positives: negatives_below.iter().map(|below| (below / negatives - area) / positives).collect(),
        negatives: positives_below.iter().map(|below| (1.0 - below / positives - area) / negatives).collect(),
    };
    counts.estimate(area, &influence)
}

/// Returns the first bin of the highest ones that are read as one: as few as contain enough units for their noise.
fn find_head(counts: &NoisyCounts<'_>) -> usize {
    let bins = counts.positives.len();
    let needed = HEAD_DEVIATIONS * counts.total_deviation() * std::f64::consts::SQRT_2;
    let mut above = 0.0;
    for bin in (0..bins).rev() {
        above += counts.positives[bin] + counts.negatives[bin];
        if above >= needed {
            return bin;
        }
    }
    0
}

/// Returns the area under the precision-recall curve; `None` when there are too few positives for the noise.
pub(super) fn estimate_pr_auc(counts: &NoisyCounts<'_>) -> Option<MetricEstimate> {
    let bins = counts.positives.len();
    let head = find_head(counts);
    let total = counts.total_positives();
    if total < LEAST_PR_DEVIATIONS * counts.total_deviation() {
        return None;
    }
    let fold =
        |values: &[f64]| -> Vec<f64> { values[..head].iter().copied().chain([values[head..].iter().sum()]).collect() };
    let positives = fold(counts.positives);
    let negatives = fold(counts.negatives);
    let all_negatives = counts.total_negatives();
    let above = |total: f64, values: &[f64]| middles_below(values).into_iter().map(|below| total - below).collect();
    let true_above: Vec<f64> = above(total, &positives);
    let false_above: Vec<f64> = above(all_negatives, &negatives);
    let precision: Vec<f64> =
        true_above.iter().zip(&false_above).map(|(hits, misses)| hits / (hits + misses)).collect();
    let area = positives.iter().zip(&precision).map(|(count, precision)| count * precision).sum::<f64>() / total;
    // A count in bin j changes the precision at the middle of every bin i below it, and half of that of its own bin.
    let mut by_positive = Vec::with_capacity(bins);
    let mut by_negative = Vec::with_capacity(bins);
    let mut positive_effect = 0.0;
    let mut negative_effect = 0.0;
    for bin in 0..positives.len() {
        let selection = true_above[bin] + false_above[bin];
        let own_positive = positives[bin] * false_above[bin] / (selection * selection);
        let own_negative = -positives[bin] * true_above[bin] / (selection * selection);
        by_positive.push((precision[bin] - area + positive_effect + 0.5 * own_positive) / total);
        by_negative.push((negative_effect + 0.5 * own_negative) / total);
        positive_effect += own_positive;
        negative_effect += own_negative;
    }
    let unfold = |values: Vec<f64>| (0..bins).map(|bin| values[bin.min(head)]).collect();
    counts.estimate(area, &MetricInfluence { positives: unfold(by_positive), negatives: unfold(by_negative) })
}

/// Returns the cumulative counts before each bin and after the last, not decreasing: the mean of the greatest count so
/// far and of the least one from here on.
fn monotone_cumulative(counts: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    for count in counts {
        sum += count;
        sums.push(sum);
    }
    let mut least = sums.clone();
    for bin in (0..sums.len() - 1).rev() {
        least[bin] = least[bin].min(least[bin + 1]);
    }
    let mut greatest = f64::NEG_INFINITY;
    for (sum, least) in sums.iter_mut().zip(least) {
        greatest = greatest.max(*sum);
        *sum = 0.5 * (greatest + least);
    }
    sums
}

/// A place on the axis of scores: a bin and the share of it that lies below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScorePlace {
    pub(super) bin: usize,
    pub(super) share: f64,
}

/// Returns the place below which the share `specificity` of the negatives lies.
fn find_threshold(counts: &NoisyCounts<'_>, specificity: f64) -> ScorePlace {
    let sums = monotone_cumulative(counts.negatives);
    let first = sums.first().copied().unwrap_or(0.0);
    let last = sums.last().copied().unwrap_or(0.0);
    let target = first + specificity * (last - first);
    let bin = sums[1..].iter().position(|sum| *sum >= target).unwrap_or(counts.negatives.len() - 1);
    let width = sums[bin + 1] - sums[bin];
    let share = if width > 0.0 { ((target - sums[bin]) / width).clamp(0.0, 1.0) } else { 0.5 };
    ScorePlace { bin, share }
}

/// Returns the weight of each bin in a count below `place`.
fn weights_below(place: ScorePlace, bins: usize) -> Vec<f64> {
    let weight = |bin: usize| match bin.cmp(&place.bin) {
        std::cmp::Ordering::Less => 1.0,
        std::cmp::Ordering::Equal => place.share,
        std::cmp::Ordering::Greater => 0.0,
    };
    (0..bins).map(weight).collect()
}

/// Returns the sensitivity at a specificity, and the place of its score; `None` when there are too few negatives above it
/// for the noise.
pub(super) fn estimate_sensitivity(counts: &NoisyCounts<'_>, specificity: f64) -> Option<(MetricEstimate, ScorePlace)> {
    let bins = counts.positives.len();
    let positives = counts.total_positives();
    let negatives = counts.total_negatives();
    if (1.0 - specificity) * negatives < LEAST_TAIL_DEVIATIONS * counts.total_deviation() {
        return None;
    }
    let place = find_threshold(counts, specificity);
    let below = weights_below(place, bins);
    let miss_rate = counts.positives.iter().zip(&below).map(|(count, weight)| count * weight).sum::<f64>() / positives;
    let near = place.bin.saturating_sub(SLOPE_BINS)..(place.bin + SLOPE_BINS + 1).min(bins);
    let density = |values: &[f64], total: f64| values[near.clone()].iter().sum::<f64>() / total;
    let slope = (density(counts.positives, positives) / density(counts.negatives, negatives)).max(0.0);
    let influence = MetricInfluence {
        positives: below.iter().map(|weight| (miss_rate - weight) / positives).collect(),
        negatives: below.iter().map(|weight| slope * (weight - specificity) / negatives).collect(),
    };
    Some((counts.estimate(1.0 - miss_rate, &influence)?, place))
}

#[cfg(test)]
mod tests {
    use super::{estimate_auroc, estimate_pr_auc, estimate_sensitivity};
    use crate::job::evaluation::estimate::NoisyCounts;
    use crate::job::evaluation::factor::PrefixFactor;

    fn counts<'a>(factor: &'a PrefixFactor, positives: &'a [f64], negatives: &'a [f64]) -> NoisyCounts<'a> {
        NoisyCounts { factor, positives, negatives, variance: 0.0 }
    }

    #[test]
    fn auroc_of_four_bins_is_that_by_hand() {
        let factor = PrefixFactor::new(4);
        // Pairs: 1 positive in bin 1 wins 2 of 4 and ties with 1; 3 positives in bin 3 win all: (2.5 + 3·4)/16.
        let own = counts(&factor, &[0.0, 1.0, 0.0, 3.0], &[2.0, 1.0, 1.0, 0.0]);
        let area = estimate_auroc(&own).expect("there are pairs");
        assert!((area.value - 14.5 / 16.0).abs() < 1e-15, "{area:?}");
        // DeLong, by hand: F = 2.5/4 and 1; G = 1, 3.5/4 and 3/4.
        let by_positive = ((0.625_f64 - 0.90625).powi(2) + 3.0 * (1.0_f64 - 0.90625).powi(2)) / 16.0;
        let by_negative =
            (2.0 * (1.0_f64 - 0.90625).powi(2) + (0.875_f64 - 0.90625).powi(2) + (0.75_f64 - 0.90625).powi(2)) / 16.0;
        assert!((area.sampling.powi(2) - by_positive - by_negative).abs() < 1e-15, "{area:?}");
    }

    #[test]
    fn equal_distributions_have_half_the_area() {
        let factor = PrefixFactor::new(5);
        let own = counts(&factor, &[1.0, 2.0, 3.0, 2.0, 1.0], &[10.0, 20.0, 30.0, 20.0, 10.0]);
        assert!((estimate_auroc(&own).expect("there are pairs").value - 0.5).abs() < 1e-15);
        // The precision is the prevalence everywhere.
        assert!((estimate_pr_auc(&own).expect("there are positives").value - 1.0 / 11.0).abs() < 1e-15);
    }

    #[test]
    fn separated_classes_have_the_area_one() {
        let factor = PrefixFactor::new(4);
        let own = counts(&factor, &[0.0, 0.0, 2.0, 2.0], &[5.0, 5.0, 0.0, 0.0]);
        assert!((estimate_auroc(&own).expect("there are pairs").value - 1.0).abs() < 1e-15);
        assert!((estimate_pr_auc(&own).expect("there are positives").value - 1.0).abs() < 1e-15);
        let (point, _) = estimate_sensitivity(&own, 0.9).expect("there are positives");
        assert!((point.value - 1.0).abs() < 1e-15);
    }

    #[test]
    fn sensitivity_is_linear_within_a_bin() {
        let factor = PrefixFactor::new(4);
        let own = counts(&factor, &[0.0, 2.0, 2.0, 4.0], &[4.0, 4.0, 2.0, 0.0]);
        // 90 % of ten negatives: half of the third bin.
        let (point, place) = estimate_sensitivity(&own, 0.9).expect("there are positives");
        assert!((point.value - (1.0 - 3.0 / 8.0)).abs() < 1e-15, "{point:?}");
        assert!(place.bin == 2 && (place.share - 0.5).abs() < 1e-15);
    }

    /// The influence is the derivative: compared with differences of the value.
    #[test]
    fn influences_are_derivatives_of_their_metrics() {
        let factor = PrefixFactor::new(6);
        let positives = [2.0, 4.0, 9.0, 16.0, 25.0, 14.0];
        let negatives = [90.0, 75.0, 40.0, 21.0, 10.0, 4.0];
        type Metric = fn(&NoisyCounts<'_>) -> f64;
        let metrics: [Metric; 2] = [
            |counts| estimate_auroc(counts).expect("there are pairs").value,
            |counts| estimate_pr_auc(counts).expect("there are positives").value,
        ];
        let own = counts(&factor, &positives, &negatives);
        let sampling = [estimate_auroc(&own), estimate_pr_auc(&own)].map(|one| one.expect("there are pairs").sampling);
        for (metric, sampling) in metrics.into_iter().zip(sampling) {
            let mut variance = 0.0;
            for side in 0..2 {
                for bin in 0..6 {
                    let shift = |by: f64| {
                        let mut both = [positives, negatives];
                        both[side][bin] += by;
                        metric(&counts(&factor, &both[0], &both[1]))
                    };
                    let slope = (shift(1e-4) - shift(-1e-4)) / 2e-4;
                    variance += [positives, negatives][side][bin] * slope * slope;
                }
            }
            assert!((variance.sqrt() / sampling - 1.0).abs() < 1e-6, "{} {sampling}", variance.sqrt());
        }
    }
}
