//! From the logits of a classifier to the scores of a search: one column for each state of each phone, or each class of
//! a CTC model.
//!
//! A classifier estimates p(class | frame). The score of a state in a hybrid recognizer is ln p(frame | state) up to a
//! constant of the frame: `ln p(state | frame) − ln p(state)` (Bourlard & Morgan 1994). The probability of a state is
//! the sum over the classes that stand for it.

use super::labels::{CharacterSet, PhoneStates};

/// Added to a probability before its logarithm: a class that a model excludes costs at most 23.
const FLOOR: f64 = 1e-10;

/// The scores of the frames of one recording.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameScores {
    pub(super) columns: usize,
    /// `[frames, columns]`: ln of the likelihood or of the posterior.
    pub(super) scores: Vec<f32>,
    pub(super) units: usize,
    /// `[frames, units]`: the posterior of each phone or class.
    pub(super) posteriors: Vec<f32>,
}

impl FrameScores {
    /// Returns the scores of the states of phones, for logits `[frames, classes]`. `priors` are the frequencies of the
    /// classes in the training data, each positive; without them every state counts as equally frequent.
    ///
    /// # Panics
    /// If the number of classes differs.
    pub fn from_phone_logits(map: &PhoneStates, logits: &[f32], priors: Option<&[f64]>) -> Self {
        let units = map.phones().len();
        let columns = units * map.states();
        let state_priors = priors.map(|priors| {
            assert_eq!(priors.len(), map.classes(), "a prior for each class");
            let mut sums = vec![0.0; columns];
            add_classes(map, priors.iter().copied(), &mut sums);
            fill_states(map, &mut sums);
            sums
        });
        let mut result = Self { columns, scores: Vec::new(), units, posteriors: Vec::new() };
        let mut states = vec![0.0; columns];
        for frame in logits.chunks_exact(map.classes()) {
            states.fill(0.0);
            add_classes(map, softmax(frame), &mut states);
            let own = states.chunks_exact(map.states());
            result.posteriors.extend(own.map(|states| states.iter().sum::<f64>() as f32));
            fill_states(map, &mut states);
            let prior = |column: usize| state_priors.as_ref().map_or(1.0, |priors| priors[column]);
            let score = |(column, p): (usize, &f64)| ((p + FLOOR).ln() - (prior(column) + FLOOR).ln()) as f32;
            result.scores.extend(states.iter().enumerate().map(score));
        }
        result
    }

    /// Returns the scores of the classes of a CTC model, for logits `[frames, classes]`.
    pub fn from_character_logits(set: &CharacterSet, logits: &[f32]) -> Self {
        let posteriors: Vec<f32> =
            logits.chunks_exact(set.classes()).flat_map(|frame| softmax(frame).map(|p| p as f32)).collect();
        let scores = posteriors.iter().map(|p| (f64::from(*p) + FLOOR).ln() as f32).collect();
        Self { columns: set.classes(), scores, units: set.classes(), posteriors }
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> usize {
        self.scores.len() / self.columns
    }
}

/// Returns the probabilities of a frame.
pub(super) fn softmax(logits: &[f32]) -> impl Iterator<Item = f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(*logit - top).exp()).sum();
    logits.iter().map(move |logit| f64::from(*logit - top).exp() / sum)
}

/// Adds each class to its state.
fn add_classes(map: &PhoneStates, values: impl Iterator<Item = f64>, states: &mut [f64]) {
    for (value, column) in values.zip(map.columns()) {
        if let Some(column) = column {
            states[*column] += value;
        }
    }
}

/// Gives a state without a class the mean of its phone's other states.
fn fill_states(map: &PhoneStates, states: &mut [f64]) {
    let mut has_class = vec![false; states.len()];
    for column in map.columns().iter().flatten() {
        has_class[*column] = true;
    }
    for (own, has_class) in states.chunks_exact_mut(map.states()).zip(has_class.chunks_exact(map.states())) {
        let known = has_class.iter().filter(|has| **has).count().max(1);
        let mean = own.iter().sum::<f64>() / known as f64;
        own.iter_mut().zip(has_class).filter(|(_, has)| !**has).for_each(|(state, _)| *state = mean);
    }
}
