//! A plan's private selection, in natural units: the settings, the average and the greatest number of runs.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{SelectionCandidate, SelectionOptions};
use undertone_api::problem::Violation;
use undertone_privacy::selection::Runs;
use undertone_privacy::unit::{RunShape, StoppingRate};

/// The settings to select from, and the number of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelectionPlan {
    /// Whether selection is used.
    pub on: bool,
    /// Learning rates as text: numbers separated by blanks or commas.
    pub rates: String,
    /// Fractions of each party's own clip, likewise.
    pub clips: String,
    /// η, the shape of the number of runs.
    pub shape: f64,
    /// Runs on average.
    pub mean: f64,
    /// The most runs, which are made in every round.
    pub most: u16,
    /// Public utterances for scoring.
    pub development: u32,
}

impl Default for SelectionPlan {
    fn default() -> Self {
        Self {
            on: false,
            rates: "0.0005 0.002 0.008".to_owned(),
            clips: "1".to_owned(),
            shape: 0.0,
            mean: 3.0,
            most: 20,
            development: 200,
        }
    }
}

impl SelectionPlan {
    /// Returns the selection; `None` if none is requested.
    ///
    /// # Errors
    /// Every word that is not a number, by its path in the spec.
    pub fn selection(&self) -> Result<Option<SelectionOptions>, Vec<Violation>> {
        if !self.on {
            return Ok(None);
        }
        let mut wrong = Vec::new();
        let mut say =
            |field: &str, message: String| wrong.push(Violation::new(format!("spec.selection.{field}"), message));
        let rates = parse_numbers(&self.rates)
            .map_err(|word| say("candidates", describe_invalid_number("learning rates", &word)));
        let clips = parse_numbers(&self.clips).map_err(|word| say("clips", describe_invalid_number("clips", &word)));
        let shape = RunShape::new(self.shape).map_err(|error| say("shape", error.to_string()));
        let most = NonZeroU16::new(self.most).ok_or_else(|| say("most_runs", "2 to 1,000, not 0".to_owned()));
        let limits = shape.and_then(|shape| Ok((shape, most?)));
        let stopping = limits.and_then(|(shape, most)| {
            let stopping = find_stopping_rate(shape, most, self.mean);
            let explanation = || {
                format!("with at most {most} runs the average is between 1 and {:.1}", mean_runs(shape, LEAST, most))
            };
            stopping.ok_or_else(|| say("stopping", explanation())).map(|stopping| (shape, most, stopping))
        });
        let (Ok(rates), Ok(clips), Ok((shape, most_runs, stopping))) = (rates, clips, stopping) else {
            return Err(wrong);
        };
        let pair = |clip: &f64| {
            rates.iter().map(|rate| SelectionCandidate { learning_rate: *rate, clip: *clip }).collect::<Vec<_>>()
        };
        let candidates = clips.iter().flat_map(pair).collect();
        Ok(Some(SelectionOptions { shape, stopping, most_runs, development: self.development, candidates }))
    }
}

/// The least stopping probability of a spec.
const LEAST: f64 = 1.0 / 1024.0;

/// Returns E\[K\] of a capped number of runs.
fn mean_runs(shape: RunShape, stopping: f64, most: NonZeroU16) -> f64 {
    let runs = |stopping| Runs::CappedNegativeBinomial { shape, stopping, most };
    StoppingRate::new(stopping).map_or(f64::NAN, |stopping| runs(stopping).mean())
}

/// Returns the γ with the requested mean number of runs, to six digits; `None` if no γ has it.
fn find_stopping_rate(shape: RunShape, most: NonZeroU16, asked: f64) -> Option<StoppingRate> {
    let (mut low, mut high) = (LEAST, 0.999);
    if !(asked >= 1.0 && asked <= mean_runs(shape, low, most)) {
        return None;
    }
    while high - low > 1e-7 {
        let middle = f64::midpoint(low, high);
        if mean_runs(shape, middle, most) > asked { low = middle } else { high = middle }
    }
    StoppingRate::new((high * 1e6).round() / 1e6).ok()
}

/// Parses the numbers of a list; on failure returns the first invalid word.
fn parse_numbers(text: &str) -> Result<Vec<f64>, String> {
    let words = text.split([' ', ',', ';', '\n', '\t']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| word.to_owned())).collect()
}

fn describe_invalid_number(of: &str, word: &str) -> String {
    format!("{of}: `{word}` is not a number; separate numbers by spaces")
}

#[cfg(test)]
mod tests {
    use super::SelectionPlan;

    fn trials(change: impl FnOnce(&mut SelectionPlan)) -> SelectionPlan {
        let mut trials = SelectionPlan { on: true, ..SelectionPlan::default() };
        change(&mut trials);
        trials
    }

    #[test]
    fn selection_has_every_pair_and_the_requested_mean() {
        let selection =
            trials(|trials| trials.clips = "1, 0.5".to_owned()).selection().expect("numbers").expect("it is on");
        assert_eq!(selection.candidates.len(), 6);
        for (shape, mean) in [(-0.5, 2.0), (0.0, 4.0), (1.0, 6.5)] {
            let selection = trials(|trials| (trials.shape, trials.mean) = (shape, mean)).selection();
            let runs = selection.expect("numbers").expect("it is on").runs();
            assert!((runs.mean() - mean).abs() < 1e-3, "{shape}: {} instead of {mean}", runs.mean());
        }
        assert_eq!(SelectionPlan::default().selection(), Ok(None));
    }

    #[test]
    fn invalid_selection_fields_are_named_by_path() {
        let fields = |change: fn(&mut SelectionPlan)| -> Vec<String> {
            let wrong = trials(change).selection().expect_err("it cannot be a selection");
            wrong.into_iter().map(|violation| violation.field).collect()
        };
        assert_eq!(fields(|trials| trials.rates = "0.1 fast".to_owned()), ["spec.selection.candidates"]);
        assert_eq!(fields(|trials| trials.clips = "a".to_owned()), ["spec.selection.clips"]);
        assert_eq!(fields(|trials| trials.mean = 19.0), ["spec.selection.stopping"]);
        assert_eq!(fields(|trials| trials.mean = 0.5), ["spec.selection.stopping"]);
        assert_eq!(fields(|trials| trials.most = 0), ["spec.selection.most_runs"]);
        assert_eq!(fields(|trials| trials.shape = -1.0), ["spec.selection.shape"]);
    }
}
