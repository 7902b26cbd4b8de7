//! The evaluation of a model on a dataset of the site, for the site's own eyes: exact counts of frames, without noise.
//!
//! The result is as private as the data. It is printed at the site's terminal, and no job and no message contains it.

use std::path::Path;

use serde::Serialize;

use super::error::EvaluationError;
use super::evaluated::EvaluatedModel;
use super::model_file::{digest_file, read_site_model};
use crate::dp::class_logits::ClassLogits;
use crate::speech::dataset::Split;
use crate::speech::model::gradient::{Engine, Example};

/// The groups of confidence.
const GROUPS: usize = 10;
/// The most confusions that are listed.
const MOST_CONFUSIONS: usize = 1_000;

/// The warning that goes with every result.
pub const PRIVATE: &str = "computed of the site's own data without noise: keep it at the site";

/// The frames of one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassCounts {
    /// The class.
    pub class: usize,
    /// The frames with this label.
    pub frames: u64,
    /// The frames with this label that the model classifies correctly.
    pub correct: u64,
    /// The frames that the model puts into this class.
    pub predicted: u64,
}

impl ClassCounts {
    /// Returns the share of the class's frames that are classified correctly; `None` without frames.
    pub fn accuracy(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.correct as f64 / self.frames as f64)
    }

    /// Returns the share of the frames put into the class that belong to it; `None` without such frames.
    pub fn precision(&self) -> Option<f64> {
        (self.predicted > 0).then(|| self.correct as f64 / self.predicted as f64)
    }
}

/// Frames of one class that the model puts into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClassConfusion {
    /// The class of the label.
    pub label: usize,
    /// The class that the model chooses.
    pub predicted: usize,
    /// The number of frames.
    pub frames: u64,
}

/// The frames whose first choice has a confidence within a range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ConfidenceGroup {
    /// The lower end.
    pub from: f64,
    /// The upper end.
    pub to: f64,
    /// The number of frames.
    pub frames: u64,
    /// The mean confidence; 0 without frames.
    pub confidence: f64,
    /// The share of correct frames; 0 without frames.
    pub accuracy: f64,
}

/// The exact result of an evaluation at the site.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocalEvaluation {
    /// [`PRIVATE`].
    pub private: &'static str,
    /// SHA-256 of the model's file, hex.
    pub model: String,
    /// The dataset.
    pub dataset: String,
    /// The evaluated split.
    pub split: Split,
    /// The evaluated utterances.
    pub utterances: usize,
    /// The evaluated frames.
    pub frames: u64,
    /// The share of correct frames.
    pub accuracy: f64,
    /// The mean distance of confidence and accuracy over the groups of confidence, weighted by frames (expected
    /// calibration error; Guo et al. 2017).
    pub calibration_error: f64,
    /// The groups of confidence.
    pub calibration: Vec<ConfidenceGroup>,
    /// The classes that labels or predictions have.
    pub classes: Vec<ClassCounts>,
    /// The most frequent confusions.
    pub confusions: Vec<ClassConfusion>,
}

/// Evaluates the model in a file on a dataset in a folder: its test split, or all of it if it has no split.
///
/// # Errors
/// [`EvaluationError`] with the file, the tensor or the numbers that do not fit.
pub fn evaluate(model: &Path, folder: &Path, name: &str) -> Result<LocalEvaluation, EvaluationError> {
    let content = std::fs::read(model).map_err(|source| EvaluationError::File { path: model.to_owned(), source })?;
    let digest = digest_file(&content);
    let model = EvaluatedModel::read(&content, None, read_site_model)?;
    let dataset = model.open_dataset(folder, name)?;
    let split = super::choose_split(&dataset);
    let utterances = dataset.split(split);
    if utterances.is_empty() {
        return Err(EvaluationError::NoUtterances(name.to_owned()));
    }
    let classes = model.classes();
    let mut counts = FrameCounts::new(classes);
    let examples: Vec<Example<'_>> = utterances
        .iter()
        .map(|number| dataset.utterance(*number))
        .map(|utterance| Example { features: utterance.features, labels: utterance.labels })
        .collect();
    model.classify(&mut Engine::new(), &examples, &mut |number, scores| {
        for (scores, label) in scores.chunks_exact(classes).zip(examples[number].labels) {
            counts.add(ClassLogits::new(scores), usize::from(*label));
        }
    });
    Ok(counts.finish(digest, name, split, utterances.len()))
}

/// Counts of frames.
struct FrameCounts {
    classes: Vec<ClassCounts>,
    confusions: std::collections::BTreeMap<(usize, usize), u64>,
    /// Frames, sum of confidence, correct frames.
    groups: [(u64, f64, u64); GROUPS],
}

impl FrameCounts {
    fn new(classes: usize) -> Self {
        let class = |class| ClassCounts { class, frames: 0, correct: 0, predicted: 0 };
        Self {
            classes: (0..classes).map(class).collect(),
            confusions: std::collections::BTreeMap::new(),
            groups: [(0, 0.0, 0); GROUPS],
        }
    }

    fn add(&mut self, frame: ClassLogits<'_>, label: usize) {
        let predicted = frame.best();
        let is_correct = predicted == label;
        self.classes[label].frames += 1;
        self.classes[predicted].predicted += 1;
        self.classes[label].correct += u64::from(is_correct);
        if !is_correct {
            *self.confusions.entry((label, predicted)).or_default() += 1;
        }
        let confidence = frame.confidence();
        let group = ((confidence * GROUPS as f64) as usize).min(GROUPS - 1);
        let (frames, sum, correct) = &mut self.groups[group];
        *frames += 1;
        *sum += confidence;
        *correct += u64::from(is_correct);
    }

    fn finish(self, model: String, dataset: &str, split: Split, utterances: usize) -> LocalEvaluation {
        let frames: u64 = self.classes.iter().map(|class| class.frames).sum();
        let correct: u64 = self.classes.iter().map(|class| class.correct).sum();
        let share = |part: f64, of: u64| if of > 0 { part / of as f64 } else { 0.0 };
        let describe = |(index, (own, sum, correct)): (usize, &(u64, f64, u64))| ConfidenceGroup {
            from: index as f64 / GROUPS as f64,
            to: (index + 1) as f64 / GROUPS as f64,
            frames: *own,
            confidence: share(*sum, *own),
            accuracy: share(*correct as f64, *own),
        };
        let calibration: Vec<ConfidenceGroup> = self.groups.iter().enumerate().map(describe).collect();
        let distance = |group: &ConfidenceGroup| group.frames as f64 * (group.confidence - group.accuracy).abs();
        let calibration_error = share(calibration.iter().map(distance).sum(), frames);
        let mut confusions: Vec<ClassConfusion> = self
            .confusions
            .into_iter()
            .map(|((label, predicted), frames)| ClassConfusion { label, predicted, frames })
            .collect();
        confusions.sort_by_key(|confusion| std::cmp::Reverse(confusion.frames));
        confusions.truncate(MOST_CONFUSIONS);
        LocalEvaluation {
            private: PRIVATE,
            model,
            dataset: dataset.to_owned(),
            split,
            utterances,
            frames,
            accuracy: share(correct as f64, frames),
            calibration_error,
            calibration,
            classes: self.classes.into_iter().filter(|class| class.frames + class.predicted > 0).collect(),
            confusions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClassConfusion, FrameCounts};
    use crate::dp::class_logits::ClassLogits;
    use crate::speech::dataset::Split;

    #[test]
    fn counts_of_four_frames_are_those_by_hand() {
        let mut counts = FrameCounts::new(3);
        let sure = [0.0, 20.0, 0.0];
        let even = [1.0, 1.0, -50.0];
        for (logits, label) in [(&sure, 1), (&sure, 1), (&sure, 2), (&even, 1)] {
            counts.add(ClassLogits::new(logits), label);
        }
        let local = counts.finish("digest".to_owned(), "ward", Split::Test, 2);
        assert_eq!((local.frames, local.classes.len()), (4, 3));
        assert!((local.accuracy - 0.5).abs() < 1e-12);
        let one = local.classes[1];
        assert_eq!((one.frames, one.correct, one.predicted), (3, 2, 3));
        assert_eq!(local.confusions[0], ClassConfusion { label: 1, predicted: 0, frames: 1 });
        // Three frames at confidence 1, of which two are correct; one at 1/2, which is wrong.
        assert!(
            (local.calibration_error - (3.0 * (1.0 / 3.0) + 0.5) / 4.0).abs() < 1e-6,
            "{}",
            local.calibration_error
        );
    }
}
