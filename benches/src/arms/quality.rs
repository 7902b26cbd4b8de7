//! Accuracy and macro-F1 of a model on a test set, frame by frame.

use undertone_worker::speech::dataset::{Dataset, Split};
use undertone_worker::speech::model::Model;
use undertone_worker::speech::model::gradient::{Engine, Example};

/// The frames of a class.
#[derive(Debug, Clone, Copy, Default)]
struct ClassCounts {
    /// Labelled so.
    labelled: u64,
    /// Classified so.
    classified: u64,
    /// Both.
    right: u64,
}

/// The quality of a model on a test set.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameQuality {
    pub(super) frames: u64,
    /// The share of the frames that are classified correctly: 0 to 1.
    pub(super) accuracy: f64,
    /// The mean F1 of the classes with frames in the test set, each with the same weight: 0 to 1.
    pub(super) macro_f1: f64,
}

impl FrameQuality {
    /// Classifies all test recordings of a dataset.
    pub(super) fn measure(engine: &mut Engine, model: &Model, dataset: &Dataset) -> Self {
        let utterances: Vec<_> = dataset.split(Split::Test).into_iter().map(|index| dataset.utterance(index)).collect();
        let examples: Vec<Example<'_>> =
            utterances.iter().map(|one| Example { features: one.features, labels: one.labels }).collect();
        let classes = model.shape().classes;
        let mut counts = vec![ClassCounts::default(); classes];
        engine.classify(model, &examples, &mut |number, logits| {
            for (label, scores) in examples[number].labels.iter().zip(logits.chunks_exact(classes)) {
                count(&mut counts, usize::from(*label), most_likely(scores));
            }
        });
        Self::from_counts(&counts)
    }

    fn from_counts(counts: &[ClassCounts]) -> Self {
        let sum = |of: fn(&ClassCounts) -> u64| counts.iter().map(of).sum::<u64>();
        let frames = sum(|class| class.labelled);
        let seen: Vec<_> = counts.iter().filter(|class| class.labelled > 0).collect();
        // 2 precision recall / (precision + recall) = 2 right / (labelled + classified).
        let f1 = |class: &&ClassCounts| 2.0 * class.right as f64 / (class.labelled + class.classified) as f64;
        Self {
            frames,
            accuracy: sum(|class| class.right) as f64 / frames.max(1) as f64,
            macro_f1: seen.iter().map(f1).sum::<f64>() / seen.len().max(1) as f64,
        }
    }
}

fn count(counts: &mut [ClassCounts], label: usize, class: usize) {
    counts[label].labelled += 1;
    counts[class].classified += 1;
    counts[label].right += u64::from(label == class);
}

/// Returns the class with the highest score, the first of equal ones.
fn most_likely(scores: &[f32]) -> usize {
    let mut best = 0;
    for (class, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = class;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::{ClassCounts, FrameQuality, count, most_likely};

    #[test]
    fn macro_f1_weighs_classes_equally() {
        let mut counts = vec![ClassCounts::default(); 3];
        for (label, class) in [(0, 0), (0, 0), (0, 0), (0, 1), (1, 1), (1, 2)] {
            count(&mut counts, label, class);
        }
        let quality = FrameQuality::from_counts(&counts);
        assert_eq!(quality.frames, 6);
        assert!((quality.accuracy - 4.0 / 6.0).abs() < 1e-12);
        // F1 of class 0 is 6/7, of class 1 is 1/2. Class 2 has no frame.
        assert!((quality.macro_f1 - f64::midpoint(6.0 / 7.0, 0.5)).abs() < 1e-12);
        assert_eq!(most_likely(&[0.1, 0.7, 0.7]), 1);
    }
}
