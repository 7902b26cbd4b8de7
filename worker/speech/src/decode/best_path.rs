//! The best path without words: the most probable class of each frame, and its runs.

use super::labels::{CharacterSet, PhoneStates};
use super::scores::{FrameScores, softmax};
use super::search::FrameWord;

/// Returns the runs of the most probable classes, for logits `[frames, classes]`, by the number of the class.
///
/// # Panics
/// If there are no classes.
pub fn best_classes(logits: &[f32], classes: usize) -> Vec<FrameWord> {
    let frames = logits.chunks_exact(classes).map(|frame| best(softmax(frame)));
    runs(frames).into_iter().map(|run| run.into_word(run.unit.to_string())).collect()
}

/// Returns the runs of the most probable phones, by name.
pub fn best_phones(map: &PhoneStates, scores: &FrameScores) -> Vec<FrameWord> {
    let frames = scores.posteriors.chunks_exact(scores.units);
    let frames = frames.map(|frame| best(frame.iter().map(|p| f64::from(*p))));
    runs(frames).into_iter().map(|run| run.into_word(map.phones()[run.unit].clone())).collect()
}

/// Returns the words of the most probable classes of a CTC model: repeated classes count once, blanks are removed, and
/// spaces separate words.
pub fn best_characters(set: &CharacterSet, scores: &FrameScores) -> Vec<FrameWord> {
    let frames = scores.posteriors.chunks_exact(scores.units);
    let frames = frames.map(|frame| best(frame.iter().map(|p| f64::from(*p))));
    let mut words: Vec<(FrameWord, f64)> = Vec::new();
    let mut is_within = false;
    for run in runs(frames) {
        let Some(character) = set.character(run.unit) else { continue };
        if character.is_whitespace() {
            is_within = false;
            continue;
        }
        if !is_within {
            words.push((FrameWord { text: String::new(), start: run.start, end: run.end, confidence: 0.0 }, 0.0));
            is_within = true;
        }
        if let Some((word, frames)) = words.last_mut() {
            word.text.push(character);
            word.end = run.end;
            word.confidence += run.sum;
            *frames += (run.end - run.start) as f64;
        }
    }
    words.into_iter().map(|(word, frames)| FrameWord { confidence: word.confidence / frames, ..word }).collect()
}

/// Frames of one unit.
#[derive(Debug, Clone, Copy)]
struct UnitRun {
    unit: usize,
    start: usize,
    end: usize,
    /// The sum of the unit's probabilities.
    sum: f64,
}

impl UnitRun {
    fn into_word(self, text: String) -> FrameWord {
        let Self { start, end, sum, .. } = self;
        FrameWord { text, start, end, confidence: (sum / (end - start) as f64).clamp(0.0, 1.0) }
    }
}

/// Returns the greatest value with its index; of several, the first.
fn best(values: impl Iterator<Item = f64>) -> (usize, f64) {
    values.enumerate().fold((0, f64::NEG_INFINITY), |best, one| if one.1 > best.1 { one } else { best })
}

fn runs(frames: impl Iterator<Item = (usize, f64)>) -> Vec<UnitRun> {
    let mut runs: Vec<UnitRun> = Vec::new();
    for (frame, (unit, p)) in frames.enumerate() {
        match runs.last_mut() {
            Some(run) if run.unit == unit => {
                run.end = frame + 1;
                run.sum += p;
            }
            _ => runs.push(UnitRun { unit, start: frame, end: frame + 1, sum: p }),
        }
    }
    runs
}
