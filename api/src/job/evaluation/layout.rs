//! The vector of one site: the sums of its units' contributions.
//!
//! For each evaluated class, in the spec's order: one coordinate for each bin from the units of the class, then as many
//! from all other units. With `accuracy`, two more: the units that are classified correctly, and all others.
//!
//! **Contribution.** An example adds one contribution of norm at most 1 ([`PrefixFactor`]) to each class, on one of its
//! two sides, and 1 to one of the last two coordinates. The coordinates of classes are disjoint, so the norm of an
//! example is at most √(classes + 1 with `accuracy`). A unit contributes the mean of its examples, whose norm is not
//! greater. So one unit, replaced by nothing, changes the sum by at most this norm: the sensitivity, and the clip.

use super::MetricEstimate;
use super::bins::ScoreBins;
use super::factor::PrefixFactor;
use super::metrics::{ClassMetrics, ClassSums, MetricError, estimate_share};
use super::report::ClassResult;

/// One scored example.
#[derive(Debug, Clone, Copy)]
pub struct ScoredExample<'a> {
    /// The logit of each evaluated class, in the spec's order.
    pub logits: &'a [f64],
    /// The position of the example's class among the evaluated ones; `None` for any other class.
    pub label: Option<usize>,
    /// Whether the model's first choice is the example's class.
    pub is_correct: bool,
}

/// The positions of all sums in a vector.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramLayout {
    classes: Vec<u32>,
    bins: ScoreBins,
    has_accuracy: bool,
    factor: PrefixFactor,
}

impl HistogramLayout {
    /// Returns the layout for some classes and bins; `has_accuracy` adds the units that are classified correctly.
    pub fn new(classes: Vec<u32>, bins: ScoreBins, has_accuracy: bool) -> Self {
        Self { classes, bins, has_accuracy, factor: PrefixFactor::new(bins.len()) }
    }

    /// Returns the evaluated classes.
    pub fn classes(&self) -> &[u32] {
        &self.classes
    }

    /// Returns the bins.
    pub const fn bins(&self) -> ScoreBins {
        self.bins
    }

    /// Returns the number of coordinates.
    pub const fn length(&self) -> usize {
        2 * self.classes.len() * self.bins.len() + if self.has_accuracy { 2 } else { 0 }
    }

    /// Returns the coordinates of one side of a class.
    fn side(&self, class: usize, is_positive: bool) -> std::ops::Range<usize> {
        let bins = self.bins.len();
        let start = (2 * class + usize::from(!is_positive)) * bins;
        start..start + bins
    }

    /// Adds `weight` times the contribution of an example; an example with a score that is not a number adds nothing.
    /// A unit with n examples gives each the weight 1/n.
    ///
    /// # Panics
    /// If the example has another number of classes, or `target` another length.
    pub fn add_example(&self, example: ScoredExample<'_>, weight: f64, target: &mut [f64]) {
        assert!(example.logits.len() == self.classes.len() && target.len() == self.length(), "of this layout");
        for (class, logit) in example.logits.iter().enumerate() {
            let Some(bin) = self.bins.find_bin(*logit) else { continue };
            let side = self.side(class, example.label == Some(class));
            self.factor.add_contribution(bin, weight, &mut target[side]);
        }
        if self.has_accuracy {
            let last = target.len() - 2;
            target[last + usize::from(!example.is_correct)] += weight;
        }
    }

    /// Computes the metrics of every class from the pooled sums of all sites. `deviation` is that of the noise in each
    /// coordinate.
    ///
    /// # Errors
    /// [`MetricError::Length`] when the vector is not of this layout.
    pub fn measure(
        &self,
        sums: &[f64],
        deviation: f64,
        specificities: &[f64],
    ) -> Result<(Vec<ClassResult>, Option<MetricEstimate>), MetricError> {
        if sums.len() != self.length() {
            return Err(MetricError::Length { field: "sums", numbers: sums.len(), bins: self.length() });
        }
        let classes = self.classes.iter().enumerate().map(|(class, label)| {
            let positives = &sums[self.side(class, true)];
            let negatives = &sums[self.side(class, false)];
            let own = ClassSums { positives, negatives, deviation };
            let metrics = ClassMetrics::from_sums(own, self.bins, &self.factor, specificities);
            let round = |sum: &[f64]| self.factor.to_histogram(sum).iter().map(|count| round_count(*count)).collect();
            let (metrics, problem) = match metrics {
                Ok(metrics) => (Some(metrics), None),
                Err(error) => (None, Some(error.to_string())),
            };
            ClassResult { class: *label, positives: round(positives), negatives: round(negatives), metrics, problem }
        });
        let classes = classes.collect();
        let accuracy = match &sums[sums.len() - if self.has_accuracy { 2 } else { 0 }..] {
            [correct, wrong] => estimate_share(*correct, *wrong, deviation),
            _ => None,
        };
        Ok((classes, accuracy))
    }
}

/// Rounds a noisy count to thousandths: the report's digits beyond them are noise.
fn round_count(count: f64) -> f64 {
    if count.is_finite() { libm::round(count * 1000.0) / 1000.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{HistogramLayout, ScoredExample};
    use crate::job::evaluation::bins::ScoreBins;

    fn layout(classes: usize, accuracy: bool) -> HistogramLayout {
        HistogramLayout::new((0..classes as u32).collect(), ScoreBins { count: 8, width: 1.0 }, accuracy)
    }

    /// Every example of a small layout.
    fn all_examples(classes: usize) -> Vec<(Vec<f64>, Option<usize>, bool)> {
        let logits = [f64::NEG_INFINITY, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, f64::INFINITY, f64::NAN];
        let mut all: Vec<Vec<f64>> = vec![Vec::new()];
        for _ in 0..classes {
            all = all.iter().flat_map(|own| logits.map(|logit| [&own[..], &[logit]].concat())).collect();
        }
        let labels: Vec<Option<usize>> = (0..classes).map(Some).chain([None]).collect();
        let with_label = |own: Vec<f64>| {
            let labels = labels.clone();
            labels.into_iter().flat_map(move |label| [true, false].map(|hit| (own.clone(), label, hit)))
        };
        all.into_iter().flat_map(with_label).collect()
    }

    fn vector(layout: &HistogramLayout, unit: &[&(Vec<f64>, Option<usize>, bool)]) -> Vec<f64> {
        let mut target = vec![0.0; layout.length()];
        for (logits, label, is_correct) in unit {
            let example = ScoredExample { logits, label: *label, is_correct: *is_correct };
            layout.add_example(example, 1.0 / unit.len() as f64, &mut target);
        }
        target
    }

    /// Brute force over neighbouring test sets: one unit of one or two examples, of all examples there are, is emptied.
    #[test]
    fn emptied_unit_changes_the_sum_by_at_most_the_norm() {
        for (classes, accuracy) in [(1, false), (1, true), (2, false), (2, true)] {
            let layout = layout(classes, accuracy);
            let examples = all_examples(classes);
            let others: Vec<_> = examples.iter().step_by(7).collect();
            let rest: Vec<f64> = others.iter().fold(vec![0.0; layout.length()], |sum, one| {
                sum.iter().zip(vector(&layout, &[*one])).map(|(a, b)| a + b).collect()
            });
            let mut greatest = 0.0_f64;
            for (index, first) in examples.iter().enumerate() {
                let stride = if classes == 1 { 1 } else { 37 };
                let seconds = examples.iter().skip(index % stride).step_by(stride);
                for unit in std::iter::once(vec![first]).chain(seconds.map(|second| vec![first, second])) {
                    let with: Vec<f64> = rest.iter().zip(vector(&layout, &unit)).map(|(sum, own)| sum + own).collect();
                    let change = with.iter().zip(&rest).map(|(with, without)| (with - without).powi(2)).sum::<f64>();
                    greatest = greatest.max(change.sqrt());
                }
            }
            let most = (classes as f64 + f64::from(u8::from(accuracy))).sqrt();
            assert!(greatest <= most + 1e-9 && greatest > most - 1e-6, "{classes} {accuracy}: {greatest} of {most}");
        }
    }

    #[test]
    fn sums_without_noise_give_the_counts_again() {
        let layout = layout(2, true);
        let mut sums = vec![0.0; layout.length()];
        for n in 0..1000_u32 {
            let label = match n % 10 {
                0..=2 => Some(0),
                3 => Some(1),
                _ => None,
            };
            let score = |class: usize| f64::from(n * 7 % 11) / 5.0 - if label == Some(class) { 0.5 } else { 1.5 };
            let logits = [score(0), score(1)];
            layout.add_example(ScoredExample { logits: &logits, label, is_correct: n % 4 > 0 }, 1.0, &mut sums);
        }
        let (classes, accuracy) = layout.measure(&sums, 0.0, &[0.9]).expect("it is of this layout");
        let totals: Vec<f64> = classes.iter().map(|class| class.positives.iter().sum::<f64>()).collect();
        assert!((totals[0] - 300.0).abs() < 0.1 && (totals[1] - 100.0).abs() < 0.1, "{totals:?}");
        assert!((accuracy.expect("there are units").value - 0.75).abs() < 1e-9);
        assert!(classes.iter().all(|class| class.metrics.is_some() && class.problem.is_none()), "{classes:?}");
        assert!(layout.measure(&sums[1..], 0.0, &[]).is_err());
    }
}
