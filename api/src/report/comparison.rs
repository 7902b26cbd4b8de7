//! Comparison of a job's arms, from measurements on public test sets.

use serde::{Deserialize, Serialize};

use crate::job::dp_sgd::Arm;
use crate::job::transcription::WordErrors;
use crate::job::{Measurement, Report};

/// The results of an arm on a test set, compared with the public arm and with open pooling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Compared))]
pub struct ArmComparison {
    /// The test set's name.
    pub test: String,
    /// The arm: `public`, `open` or `private`.
    pub arm: String,
    /// Its rounds before the measurement (epochs for the public arm).
    pub rounds: u32,
    /// Their duration in seconds, if the lead has reported it.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// The measured frames.
    pub frames: u64,
    /// The share of the frames that are classified correctly: 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy in nats.
    pub loss: f64,
    /// Macro-F1: the mean F1 of the classes with frames in the test set, 0 to 1. Absent for models with CTC, while the
    /// job runs, and in reports of earlier workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macro_f1: Option<f64>,
    /// The accuracy less that of the public arm; absent for that arm itself.
    #[serde(default)]
    pub difference: Option<f64>,
    /// The arm's gain as a share of open pooling's gain on this test set: 1 is the full gain, below 0 is worse than
    /// without the private data. Absent without open pooling, or if its gain is too small to divide by.
    #[serde(default)]
    pub recovered: Option<f64>,
    /// The word errors of the best path; absent for models of frames, while the job runs, and for a test set without
    /// characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<WordErrors>,
}

/// Gains of open pooling below this are within the effect of a batch's order: shares of them are meaningless.
const NOTHING: f64 = 0.001;

impl ArmComparison {
    /// Returns every arm on every test set, in the order of `tests` and of the arms: the lead's report, or the last
    /// measurement of each while the job runs.
    pub fn compare_all(tests: &[String], outcome: Option<&Report>, measurements: &[Measurement]) -> Vec<Self> {
        let arms = [Arm::Public, Arm::Open, Arm::Private];
        let mut all = Vec::new();
        for test in tests {
            let mut of_test: Vec<Self> =
                arms.into_iter().filter_map(|arm| Self::compare_arm(test, arm, outcome, measurements)).collect();
            let accuracy = |arm: Arm| of_test.iter().find(|one| one.arm == arm.series()).map(|one| one.accuracy);
            let (public, open) = (accuracy(Arm::Public), accuracy(Arm::Open));
            let gain = public.zip(open).map(|(public, open)| open - public).filter(|gain| *gain > NOTHING);
            for one in &mut of_test {
                if one.arm != Arm::Public.series() {
                    one.difference = public.map(|public| one.accuracy - public);
                    one.recovered = one.difference.zip(gain).map(|(own, gain)| own / gain);
                }
            }
            all.extend(of_test);
        }
        all
    }

    fn compare_arm(test: &str, arm: Arm, outcome: Option<&Report>, measurements: &[Measurement]) -> Option<Self> {
        let row = match outcome {
            Some(Report::DpSgd(report)) => report.arms.iter().find(|row| row.arm == arm),
            Some(
                Report::ActiveLearning(_) | Report::Transcription(_) | Report::Evaluation(_) | Report::Analytics(_),
            )
            | None => None,
        };
        if let Some((row, cell)) = row.and_then(|row| Some((row, row.tests.iter().find(|cell| cell.test == test)?))) {
            return Some(Self {
                test: test.to_owned(),
                arm: arm.series().to_owned(),
                rounds: row.rounds,
                seconds: Some(row.seconds),
                frames: cell.frames,
                accuracy: cell.accuracy,
                loss: cell.loss,
                macro_f1: cell.macro_f1,
                difference: None,
                recovered: None,
                words: cell.words,
            });
        }
        let own = measurements.iter().filter(|figure| figure.series == arm.series() && figure.test == test);
        own.max_by_key(|figure| figure.round).map(|figure| Self {
            test: test.to_owned(),
            arm: figure.series.clone(),
            rounds: figure.round,
            seconds: None,
            frames: figure.frames,
            accuracy: figure.accuracy,
            loss: figure.loss,
            macro_f1: None,
            difference: None,
            recovered: None,
            words: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ArmComparison;
    use crate::job::Measurement;

    fn figure(series: &str, round: u32, test: &str, accuracy: f64) -> Measurement {
        Measurement { series: series.to_owned(), round, test: test.to_owned(), frames: 100, accuracy, loss: 2.0 }
    }

    fn compared(figures: &[(&str, f64)]) -> Vec<ArmComparison> {
        let figures: Vec<_> = figures.iter().map(|(series, accuracy)| figure(series, 3, "common", *accuracy)).collect();
        ArmComparison::compare_all(&["common".to_owned()], None, &figures)
    }

    #[test]
    fn recovered_is_a_share_of_the_open_gain() {
        let all = compared(&[("public", 0.30), ("open", 0.40), ("private", 0.36)]);
        assert_eq!(all.iter().map(|one| one.arm.as_str()).collect::<Vec<_>>(), ["public", "open", "private"]);
        assert_eq!((all[0].difference, all[0].recovered), (None, None));
        assert!(all[1].recovered.is_some_and(|share| (share - 1.0).abs() < 1e-9));
        assert!(all[2].recovered.is_some_and(|share| (share - 0.6).abs() < 1e-9));
        assert!(all[2].difference.is_some_and(|more| (more - 0.06).abs() < 1e-9));
    }

    #[test]
    fn without_open_gain_there_is_no_share() {
        for figures in [
            &[("public", 0.30), ("open", 0.30), ("private", 0.31)][..],
            &[("public", 0.30), ("open", 0.20), ("private", 0.31)],
            &[("public", 0.30), ("private", 0.31)],
        ] {
            let all = compared(figures);
            assert!(all.iter().all(|one| one.recovered.is_none()), "{all:?}");
            assert!(all.last().is_some_and(|one| one.difference.is_some()));
        }
    }

    #[test]
    fn running_job_shows_its_last_measurement() {
        let figures =
            [figure("private", 10, "a", 0.2), figure("private", 0, "a", 0.1), figure("private", 20, "b", 0.9)];
        let all = ArmComparison::compare_all(&["a".to_owned()], None, &figures);
        assert_eq!(all.len(), 1);
        assert!(all[0].rounds == 10 && (all[0].accuracy - 0.2).abs() < 1e-12 && all[0].seconds.is_none());
    }
}
