//! A private labelled log on which classifiers are measured.
//!
//! It is a dataset of its own beside the lead's, so that its rows pay for measurements alone, and not for training. Each
//! measured classifier is one release of the mechanism of an `evaluation`: one noisy histogram of scores for every label,
//! with the number of correct answers. Accuracy, AUROC, calibration and their intervals are post-processing.

use serde::{Deserialize, Serialize};
use undertone_privacy::NoiseMultiplier;

use super::PrivateTestResult;
use crate::id::DatasetId;
use crate::job::evaluation::{HistogramRelease, MetricError, ScoreBins, default_specificities};
use crate::question::Label;

/// The series in which a private test set releases its histograms, in the order of the measured classifiers.
pub const PRIVATE_TEST: &str = "private_test";
/// The most measured classifiers.
pub const MOST_MEASUREMENTS: u32 = 20;

/// The measurement of classifiers on a private labelled log.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PrivateTest {
    /// The log, labelled and not public. Its test split is used, or all of it if it has no split.
    pub dataset: DatasetId,
    /// z: the standard deviation of the noise relative to the greatest contribution of a unit.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 8.0))]
    pub noise_multiplier: NoiseMultiplier,
    /// The measured classifiers, 1 to 20, each of them one release: the last one; of two or more also the first, and the
    /// others as evenly between as rounds permit. At most one more than there are rounds.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 20))]
    pub measurements: u32,
}

const fn one() -> u32 {
    1
}

impl PrivateTest {
    /// Returns the release of one measurement of a classifier with these labels.
    pub fn histograms(&self, labels: &[Label]) -> HistogramRelease {
        HistogramRelease {
            classes: (0..).take(labels.len()).collect(),
            bins: ScoreBins::default(),
            accuracy: true,
            noise_multiplier: self.noise_multiplier,
        }
    }

    /// Computes the result from the released sums of one measurement.
    ///
    /// # Errors
    /// [`MetricError::Length`] when the vector has another length.
    pub fn measure(&self, labels: &[Label], sums: &[f64]) -> Result<PrivateTestResult, MetricError> {
        let release = self.histograms(labels);
        let (classes, accuracy) = release.measure(sums, 1, &default_specificities())?;
        Ok(PrivateTestResult { deviation: release.pooled_deviation(1), accuracy, classes })
    }

    /// Returns the rounds after which the classifier is measured, ascending, if `last` is the last round: fewer than
    /// planned if the questions end early.
    pub fn measured_rounds(&self, last: u32) -> Vec<u32> {
        match self.measurements.min(last.saturating_add(1)) {
            0 => Vec::new(),
            1 => vec![last],
            count => {
                let round = |index: u32| u64::from(index) * u64::from(last) / u64::from(count - 1);
                (0..count).map(|index| u32::try_from(round(index)).unwrap_or(last)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
    use uuid::Uuid;

    use super::{MOST_MEASUREMENTS, PRIVATE_TEST, PrivateTest};
    use crate::dataset::{Dataset, SizeClass, Visibility};
    use crate::id::{DatasetId, LineageId};
    use crate::job::active_learning::tests::{datasets, example, training};
    use crate::job::active_learning::{POOL, Spec, TRAINING};
    use crate::job::{DatasetUse, DisclosureForm, JobKind as _, Observer, Spec as AnySpec, disclosures};
    use crate::question::Label;

    /// Returns the example's job with a private test set of a bank's users, and its datasets, the test set last.
    fn measured(measurements: u32) -> (Spec, Vec<Dataset>) {
        let mut datasets = datasets();
        datasets.push(Dataset {
            id: DatasetId(Uuid::from_u128(3)),
            lineage: LineageId(Uuid::from_u128(103)),
            name: "golden-test".to_owned(),
            classes: 3,
            ..datasets[1].clone()
        });
        let noise_multiplier = NoiseMultiplier::new(8.0).unwrap();
        let test = PrivateTest { dataset: datasets[2].id, noise_multiplier, measurements };
        (Spec { private_test: Some(test), ..example().0 }, datasets)
    }

    fn fields(change: impl FnOnce(&mut Spec, &mut Vec<Dataset>)) -> Vec<String> {
        let (mut spec, mut datasets) = measured(2);
        change(&mut spec, &mut datasets);
        spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
    }

    #[test]
    fn each_measurement_is_charged_as_it_is_released_and_nothing_else() {
        let (spec, mut datasets) = measured(3);
        assert_eq!(spec.check(&datasets), Vec::new());
        for visibility in [Visibility::Private, Visibility::Open] {
            datasets[2].visibility = visibility;
            let event = Event::PoissonSampledGaussian {
                sampling_rate: SamplingRate::ONE,
                noise_multiplier: NoiseMultiplier::new(8.0).unwrap(),
            };
            let charge = spec.cost(&datasets[2]).unwrap();
            assert_eq!((&charge.event, charge.releases), (&event, 3));
            assert_eq!((charge.unit, charge.adjacency), (PrivacyUnit::User, Adjacency::ZeroOut));
            assert_eq!(spec.release(&datasets[2], PRIVATE_TEST), Some(event));
            assert_eq!((spec.release(&datasets[2], TRAINING), spec.release(&datasets[2], POOL)), (None, None));
        }
        assert_eq!(spec.release(&datasets[1], PRIVATE_TEST), None);
        assert_eq!(spec.cost(&datasets[1]), example().0.cost(&datasets[1]), "the other log pays as before");
        let [series] = &spec.series(&datasets)[..] else { panic!("one series") };
        assert_eq!((series.name.as_str(), series.rounds, series.length), (PRIVATE_TEST, 3, Some(2 * 3 * 64 + 2)));
        let round = 2 * spec.deadline_seconds + 86_400;
        assert_eq!(series.deadline_seconds, 4 * round, "two rounds and a half lie between two measurements");
        assert_eq!(spec.clip(datasets[2].id), Some(2.0), "three labels and the correct answers");
        assert!(spec.most_norm(&datasets[2], series).unwrap() > 2.0 * 500.0);
        assert_eq!(spec.units(&datasets[2]), 500, "of the test split");
        assert!(spec.datasets().contains(&(datasets[2].id, DatasetUse::Participate)));
        assert!(!spec.follows_from_releases(datasets[2].id), "its site sends histograms, and no file or report");
        let led = Spec { private_lead: Some(training()), ..spec };
        assert_eq!(
            led.series(&datasets).iter().map(|series| series.name.as_str()).collect::<Vec<_>>(),
            [TRAINING, PRIVATE_TEST]
        );
    }

    #[test]
    fn owner_reads_that_noisy_histograms_leave_and_who_reads_them() {
        let (spec, datasets) = measured(2);
        let list = disclosures(&AnySpec::ActiveLearning(spec), &datasets[2], &datasets);
        let about = |observer| list.iter().find(|one| one.observer == observer).unwrap();
        let server = about(Observer::Server);
        assert_eq!((server.form, server.times), (DisclosureForm::Protected, 2));
        assert!(server.what.contains("score histograms"), "{}", server.what);
        assert!(about(Observer::Participants).what.contains("`private_test`: the average"), "{list:?}");
        assert!(list.iter().all(|one| one.form != DisclosureForm::Exact), "{list:?}");
    }

    #[test]
    fn measured_rounds_include_the_last_and_lie_evenly() {
        let rounds = |measurements, last| measured(measurements).0.private_test.unwrap().measured_rounds(last);
        assert_eq!(rounds(1, 5), [5]);
        assert_eq!(rounds(2, 5), [0, 5]);
        assert_eq!(rounds(3, 5), [0, 2, 5]);
        assert_eq!(rounds(6, 5), [0, 1, 2, 3, 4, 5]);
        assert_eq!(rounds(6, 2), [0, 1, 2], "the questions ended early");
        assert_eq!(rounds(6, 0), [0]);
        assert_eq!(rounds(20, 1000).len(), 20);
    }

    #[test]
    fn limits_name_their_fields() {
        fn test(spec: &mut Spec) -> &mut PrivateTest {
            spec.private_test.as_mut().unwrap()
        }
        fn labels(spec: &mut Spec, count: usize) {
            spec.labels =
                (0..count).map(|n| Label { name: format!("label {n}"), key: None, hint: String::new() }).collect();
        }
        let valid = Vec::<String>::new();
        let most = |spec: &mut Spec| (spec.rounds, test(spec).measurements) = (40, MOST_MEASUREMENTS);
        assert_eq!(fields(|spec, _| most(spec)), valid);
        assert_eq!(fields(|spec, _| test(spec).measurements = spec.rounds + 1), valid);
        for measurements in [0, 7] {
            let wrong = fields(|spec, _| test(spec).measurements = measurements);
            assert_eq!(wrong, ["spec.private_test.measurements"], "of 5 rounds, {measurements}");
        }
        let more = |spec: &mut Spec| (spec.rounds, test(spec).measurements) = (40, MOST_MEASUREMENTS + 1);
        assert_eq!(fields(|spec, _| more(spec)), ["spec.private_test.measurements"]);
        let results = |count: usize, measurements| {
            fields(|spec, _| {
                labels(spec, count);
                test(spec).measurements = measurements;
            })
        };
        assert_eq!(results(64, 2), valid, "128 results");
        assert_eq!(results(43, 3), ["spec.private_test.measurements"], "129 results");
        assert_eq!(results(65, 1), ["spec.labels"]);
        let loud = |spec: &mut Spec| test(spec).noise_multiplier = NoiseMultiplier::new(1025.0).unwrap();
        assert_eq!(fields(|spec, _| loud(spec)), ["spec.private_test.noise_multiplier"]);
        let dataset = ["spec.private_test.dataset"];
        assert_eq!(fields(|_, datasets| datasets[2].visibility = Visibility::Public), dataset);
        assert_eq!(fields(|_, datasets| datasets[2].classes = 0), dataset);
        assert_eq!(fields(|_, datasets| datasets[2].classes = 4), dataset);
        assert_eq!(fields(|_, datasets| datasets.truncate(2)), dataset);
        assert_eq!(fields(|_, datasets| datasets[2].units = vec![PrivacyUnit::Record]), ["spec.unit"]);
        let asks = |spec: &mut Spec, datasets: &mut Vec<Dataset>| {
            (datasets[1].classes, test(spec).dataset) = (3, datasets[1].id);
        };
        assert_eq!(fields(asks), dataset, "a log that asks is not measured on");
        let small = |_: &mut Spec, datasets: &mut Vec<Dataset>| datasets[2].records = SizeClass(10);
        assert_eq!(fields(small), valid);
    }

    #[test]
    fn result_states_accuracy_with_the_noise() {
        let (spec, _) = measured(1);
        let test = spec.private_test.unwrap();
        let layout = test.histograms(&spec.labels).layout();
        let mut sums = vec![0.0; layout.length()];
        for n in 0..3000_u32 {
            let label = n as usize % 3;
            let is_correct = n % 5 > 0;
            let chosen = if is_correct { label } else { (label + 1) % 3 };
            let logits: Vec<f64> = (0..3).map(|class| if class == chosen { 1.5 } else { -2.0 }).collect();
            let example = crate::job::evaluation::ScoredExample { logits: &logits, label: Some(label), is_correct };
            layout.add_example(example, 1.0, &mut sums);
        }
        let result = test.measure(&spec.labels, &sums).unwrap();
        let accuracy = result.accuracy.unwrap();
        assert!((accuracy.value - 0.8).abs() < 1e-9 && accuracy.noise > 0.0, "{accuracy:?}");
        assert!((result.deviation - 16.0).abs() < 1e-9, "z = 8 of contributions up to 2");
        assert!(result.classes.len() == 3 && result.classes.iter().all(|class| class.metrics.is_some()));
        assert!(test.measure(&spec.labels, &sums[1..]).is_err());
    }
}
