//! The metrics of one class: everything that is computed from its two noisy histograms.
//!
//! This is post-processing of released sums, so it costs nothing, and server, site and browser compute the same. The
//! intervals account for the sampling of the test data and for the noise; the bench `evaluation` measures their
//! coverage. To add a metric: its value and its influence in the file of its subject, and a field here.

use serde::{Deserialize, Serialize};

use super::bins::{ScoreBins, to_probability};
use super::calibration::{CalibrationGroup, estimate_calibration};
use super::estimate::{MetricEstimate, MetricInfluence, NoisyCounts};
use super::factor::PrefixFactor;
use super::ranking::{estimate_auroc, estimate_pr_auc, estimate_sensitivity};

/// The deviations of its noise that the number of positives, and that of negatives, must exceed.
pub const LEAST_DEVIATIONS: f64 = 6.0;

/// The reason for missing metrics.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// A sum has another number of coordinates than the spec has bins.
    #[error("`{field}` has {numbers} numbers for {bins} bins")]
    Length {
        /// The field.
        field: &'static str,
        /// Its numbers.
        numbers: usize,
        /// The bins.
        bins: usize,
    },
    /// A sum has a number that is not finite.
    #[error("`{0}` contains a number that is not finite")]
    NotFinite(&'static str),
    /// The deviation of the noise is not a number of at least 0.
    #[error("`deviation` must be a finite number of at least 0, not {0}")]
    Deviation(f64),
    /// There are too few units for the noise.
    #[error(
        "`{field}` are about {count:.0}, within the noise (deviation {deviation:.0}): use more test data or less noise"
    )]
    TooFew {
        /// The field.
        field: &'static str,
        /// The noisy number.
        count: f64,
        /// The deviation of its noise.
        deviation: f64,
    },
    /// A metric is not a finite number.
    #[error("`{0}` cannot be computed from these counts: use more test data or less noise")]
    Undefined(&'static str),
}

/// A decision threshold, and the sensitivity there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = EvaluationOperatingPoint))]
pub struct OperatingPoint {
    /// The chosen specificity: the share of the negatives below the threshold.
    pub specificity: f64,
    /// The threshold: a probability.
    pub threshold: f64,
    /// The share of the positives above the threshold.
    pub sensitivity: MetricEstimate,
}

/// The metrics of one class against all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassMetrics {
    /// The noisy number of units of the class.
    pub positives: f64,
    /// The noisy number of all other units.
    pub negatives: f64,
    /// The standard deviation of the noise of either number.
    pub deviation: f64,
    /// The share of units on the right side of the probability ½.
    pub accuracy: MetricEstimate,
    /// The area under the receiver operating characteristic.
    pub auroc: MetricEstimate,
    /// The area under the precision-recall curve, at the prevalence of the test data; absent when there are too few
    /// positives for the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr_auc: Option<MetricEstimate>,
    /// The expected calibration error over `calibration`.
    pub calibration_error: MetricEstimate,
    /// Scores and rates of groups of about equally many units.
    pub calibration: Vec<CalibrationGroup>,
    /// The sensitivity at the specificities of the spec, without those where too few negatives lie above the threshold
    /// for the noise.
    pub operating_points: Vec<OperatingPoint>,
}

/// The released sums of one class.
#[derive(Debug, Clone, Copy)]
pub struct ClassSums<'a> {
    /// The sum of the contributions of the units of the class.
    pub positives: &'a [f64],
    /// The sum of the contributions of all other units.
    pub negatives: &'a [f64],
    /// The standard deviation of the noise in each coordinate.
    pub deviation: f64,
}

impl ClassMetrics {
    /// Computes the metrics of a class from its released sums.
    ///
    /// # Errors
    /// [`MetricError`], which names the field.
    pub fn from_sums(
        sums: ClassSums<'_>,
        bins: ScoreBins,
        factor: &PrefixFactor,
        specificities: &[f64],
    ) -> Result<Self, MetricError> {
        let positives = read_histogram("positives", sums.positives, factor)?;
        let negatives = read_histogram("negatives", sums.negatives, factor)?;
        if !(sums.deviation.is_finite() && sums.deviation >= 0.0) {
            return Err(MetricError::Deviation(sums.deviation));
        }
        let variance = sums.deviation * sums.deviation;
        let counts = NoisyCounts { factor, positives: &positives, negatives: &negatives, variance };
        let deviation = counts.total_deviation();
        for (field, count) in [("positives", counts.total_positives()), ("negatives", counts.total_negatives())] {
            if count < (LEAST_DEVIATIONS * deviation).max(1.0) {
                return Err(MetricError::TooFew { field, count, deviation });
            }
        }
        let undefined = MetricError::Undefined;
        let (calibration_error, calibration) =
            estimate_calibration(&counts, bins).ok_or(undefined("calibration_error"))?;
        let operating_point = |specificity: &f64| {
            let (sensitivity, place) = estimate_sensitivity(&counts, *specificity)?;
            let threshold = to_probability(bins.edge(place.bin) + place.share * bins.width);
            Some(OperatingPoint { specificity: *specificity, threshold, sensitivity })
        };
        Ok(Self {
            positives: counts.total_positives(),
            negatives: counts.total_negatives(),
            deviation,
            accuracy: estimate_accuracy(&counts).ok_or(undefined("accuracy"))?,
            auroc: estimate_auroc(&counts).ok_or(undefined("auroc"))?,
            pr_auc: estimate_pr_auc(&counts),
            calibration_error,
            calibration,
            operating_points: specificities.iter().filter_map(operating_point).collect(),
        })
    }
}

fn read_histogram(field: &'static str, sum: &[f64], factor: &PrefixFactor) -> Result<Vec<f64>, MetricError> {
    if sum.len() != factor.bins() {
        return Err(MetricError::Length { field, numbers: sum.len(), bins: factor.bins() });
    }
    if sum.iter().any(|value| !value.is_finite()) {
        return Err(MetricError::NotFinite(field));
    }
    Ok(factor.to_histogram(sum))
}

/// Returns the share of units on the right side of ½, which is the edge in the middle.
fn estimate_accuracy(counts: &NoisyCounts<'_>) -> Option<MetricEstimate> {
    let bins = counts.positives.len();
    let all = counts.total_positives() + counts.total_negatives();
    let hits = counts.positives[bins / 2..].iter().sum::<f64>() + counts.negatives[..bins / 2].iter().sum::<f64>();
    let accuracy = hits / all;
    let side = |upper: bool| {
        let is_right = move |bin: usize| (bin >= bins / 2) == upper;
        (0..bins).map(|bin| (f64::from(u8::from(is_right(bin))) - accuracy) / all).collect()
    };
    let noise = counts.noise_variance(&MetricInfluence { positives: side(true), negatives: side(false) });
    MetricEstimate::from_counts(hits, all - hits, noise)
}

/// Returns the share of correct units from two noisy counts with noise of this deviation each; `None` when there are
/// too few units for the noise.
pub fn estimate_share(correct: f64, wrong: f64, deviation: f64) -> Option<MetricEstimate> {
    let all = correct + wrong;
    if !(all.is_finite() && all >= LEAST_DEVIATIONS * std::f64::consts::SQRT_2 * deviation && all > 0.0) {
        return None;
    }
    let share = correct / all;
    let noise = deviation * deviation * ((1.0 - share).powi(2) + share * share) / (all * all);
    MetricEstimate::from_counts(correct, wrong, noise)
}

#[cfg(test)]
mod tests {
    use super::{ClassMetrics, ClassSums, MetricError, estimate_share};
    use crate::job::evaluation::bins::ScoreBins;
    use crate::job::evaluation::factor::PrefixFactor;

    const BINS: ScoreBins = ScoreBins { count: 8, width: 1.0 };

    fn sums(counts: &[f64], factor: &PrefixFactor) -> Vec<f64> {
        let mut sum = vec![0.0; counts.len()];
        for (bin, count) in counts.iter().enumerate() {
            factor.add_contribution(bin, *count, &mut sum);
        }
        sum
    }

    fn metrics(positives: &[f64], negatives: &[f64], deviation: f64) -> Result<ClassMetrics, MetricError> {
        let factor = PrefixFactor::new(8);
        let positives = sums(positives, &factor);
        let negatives = sums(negatives, &factor);
        let sums = ClassSums { positives: &positives, negatives: &negatives, deviation };
        ClassMetrics::from_sums(sums, BINS, &factor, &[0.9, 0.95])
    }

    #[test]
    fn metrics_without_noise_are_those_of_the_counts() {
        let positives = [1.0, 1.0, 2.0, 6.0, 20.0, 30.0, 25.0, 15.0];
        let negatives = [300.0, 250.0, 200.0, 140.0, 60.0, 30.0, 15.0, 5.0];
        let class = metrics(&positives, &negatives, 0.0).expect("there are units");
        assert!((class.positives - 100.0).abs() < 1e-9 && (class.negatives - 1000.0).abs() < 1e-9);
        assert!((class.accuracy.value - (90.0 + 890.0) / 1100.0).abs() < 1e-12, "{:?}", class.accuracy);
        assert!(class.auroc.noise.abs() < 1e-12 && class.auroc.sampling > 0.0);
        assert_eq!(class.operating_points.len(), 2);
        assert!(class.operating_points[0].sensitivity.value > class.operating_points[1].sensitivity.value);
    }

    #[test]
    fn noise_widens_each_interval() {
        let positives = [10.0, 10.0, 20.0, 60.0, 200.0, 300.0, 250.0, 150.0];
        let negatives = [3000.0, 2500.0, 2000.0, 1400.0, 600.0, 300.0, 150.0, 50.0];
        let [without, with] = [0.0, 3.0].map(|noise| metrics(&positives, &negatives, noise).expect("there are units"));
        let pairs = [
            (without.accuracy, with.accuracy),
            (without.auroc, with.auroc),
            (without.pr_auc.expect("many positives"), with.pr_auc.expect("many positives")),
            (without.calibration_error, with.calibration_error),
            (without.operating_points[0].sensitivity, with.operating_points[0].sensitivity),
        ];
        for (without, with) in pairs {
            assert!(with.noise > 0.0 && with.high - with.low > without.high - without.low, "{without:?} {with:?}");
        }
    }

    #[test]
    fn errors_name_the_field() {
        let factor = PrefixFactor::new(8);
        let of = |positives: &[f64], negatives: &[f64], deviation| {
            let sums = ClassSums { positives, negatives, deviation };
            ClassMetrics::from_sums(sums, BINS, &factor, &[]).map(|_| ()).expect_err("it is refused").to_string()
        };
        let whole = [50.0; 8];
        assert!(of(&[1.0; 7], &whole, 1.0).contains("`positives` has 7 numbers for 8 bins"));
        assert!(of(&whole, &[f64::NAN; 8], 1.0).contains("`negatives`"));
        assert!(of(&whole, &whole, -1.0).contains("`deviation`"));
        assert!(of(&whole, &[0.0; 8], 1.0).contains("`negatives` are about 0, within the noise"));
    }

    #[test]
    fn share_of_correct_units_has_both_variances() {
        let share = estimate_share(80.0, 20.0, 2.0).expect("there are units");
        assert!((share.value - 0.8).abs() < 1e-15 && (share.sampling - 0.04005).abs() < 1e-5, "{share:?}");
        assert!((share.noise - (4.0_f64 * (0.04 + 0.64)).sqrt() / 100.0).abs() < 1e-15);
        assert_eq!(estimate_share(5.0, 1.0, 2.0), None);
    }
}
