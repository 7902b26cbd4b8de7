//! The output layer with softmax and cross-entropy in one: through the classes once forward and once back, block of frames by
//! block of frames, so that a block's probabilities are still in the cache when they are needed again.
//!
//! What is kept of a frame is d = exp(z − max z) − Σ exp(z − max z) · one-hot; the derivative of its weighted cross-entropy by
//! the logits z is weight / Σ exp(z − max z) times that. The factor goes to the frame's activations instead, which are
//! fewer.

mod back;
mod forward;

use std::ops::Range;

use rayon::prelude::*;

use super::lanes::dispatch;
use super::outer::Outer;
use super::pack::{Panels, TALL, Tiles, WIDE};
use back::Back;
use forward::Forward;

/// Most frames of a block: with some 9,000 classes it just fits into a core's own cache.
const FRAMES: usize = 64;
/// The logit of what is no class.
const NEVER: f32 = -1e30;

/// The layer's parameters as both passes read them.
pub(in crate::dp) struct Weights {
    hidden: usize,
    classes: usize,
    /// `[hidden + 1, classes]`.
    forward: Panels,
    /// `[classes, hidden]`, for the way back.
    back: Option<Panels>,
}

impl Weights {
    /// Of `[hidden + 1, classes]` row-major; the last row is the bias.
    ///
    /// # Panics
    /// If there are not so many.
    pub(in crate::dp) fn new(parameters: &[f32], hidden: usize, classes: usize, back: bool) -> Self {
        assert_eq!(parameters.len(), (hidden + 1) * classes, "parameters of {hidden} × {classes}");
        let mut forward = Panels::pack(parameters, hidden + 1, classes);
        forward.fill_beyond(hidden, NEVER);
        let back = back.then(|| Panels::pack_transposed(&parameters[..hidden * classes], hidden, classes));
        Self { hidden, classes, forward, back }
    }
}

/// Totals over frames.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    /// Frames.
    pub frames: u64,
    /// Of them, classified right.
    pub right: u64,
    /// Sum of their cross-entropies, in nats.
    pub loss: f64,
}

impl Score {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { frames: self.frames + other.frames, right: self.right + other.right, loss: self.loss + other.loss }
    }

    /// Part of the frames classified right; 0 without frames.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.frames.max(1) as f64
    }

    /// Mean cross-entropy in nats; 0 without frames.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.frames.max(1) as f64
    }
}

/// Frames whose logits exist together.
struct Block<'a> {
    rows: Range<usize>,
    /// Logits, then d: `[panel][frame][48]`.
    errors: &'a mut [[f32; WIDE]],
    /// 1 / Σ exp(z − max z), then that times the frame's weight.
    scale: &'a mut [f32],
    by_input: &'a mut [f32],
}

/// Rows of a block in tiles of eight: `[tile][column][8 rows]`, with a last column of ones.
struct Rows {
    data: Vec<[f32; TALL]>,
    width: usize,
}

impl Rows {
    fn pack(rows: &[f32], hidden: usize, count: usize) -> Self {
        let width = hidden + 1;
        let mut data = vec![[0.0; TALL]; count.div_ceil(TALL) * width];
        for row in 0..count {
            let tile = &mut data[row / TALL * width..][..width];
            for (target, value) in tile.iter_mut().zip(rows[row * hidden..].iter().take(hidden).chain(&[1.0])) {
                target[row % TALL] = *value;
            }
        }
        Self { data, width }
    }
}

/// Both passes over frames.
///
/// * `activations`: `[frames, hidden]`
/// * `labels`: `[frames]`, each below the number of classes
/// * `weight`: `[frames]`, by which each frame's cross-entropy is multiplied
/// * `by_input`: `[frames, hidden]`, overwritten with the derivatives by the activations
/// * `buffer`: one used before, of any length
///
/// Answers with what the gradient of the parameters is made of, and the unweighted totals.
///
/// # Panics
/// If a label is no class or a slice has another length.
pub(in crate::dp) fn derivatives(
    weights: &Weights,
    activations: &[f32],
    labels: &[u16],
    weight: &[f32],
    by_input: &mut [f32],
    buffer: Vec<f32>,
) -> (Outer, Score) {
    let (frames, hidden) = (labels.len(), weights.hidden);
    assert!(
        weight.len() == frames && activations.len() == frames * hidden && by_input.len() == frames * hidden,
        "activations, labels and weights of {frames} frames"
    );
    let mut errors = Panels::room(buffer, frames, weights.classes, block(frames));
    let mut scale = vec![0.0; frames];
    let (mut scales, mut by_inputs) = (&mut scale[..], by_input);
    let blocks: Vec<Block<'_>> = errors
        .blocks_mut()
        .map(|(rows, errors)| Block {
            errors,
            scale: scales.split_off_mut(..rows.len()).unwrap_or_default(),
            by_input: by_inputs.split_off_mut(..rows.len() * hidden).unwrap_or_default(),
            rows,
        })
        .collect();
    let scores = blocks.into_par_iter().map(|block| {
        let Block { rows, errors, scale, by_input } = block;
        let tiles = Rows::pack(&activations[rows.start * hidden..], hidden, rows.len());
        let score = dispatch(Forward { weights, tiles: &tiles, labels: &labels[rows.clone()], errors, scale });
        scale.iter_mut().zip(&weight[rows]).for_each(|(scale, weight)| *scale *= weight);
        dispatch(Back { weights, errors, scale, by_input });
        score
    });
    let score = sum(scores);
    (Outer::new(Tiles::pack_with_one(activations, hidden, &scale), errors), score)
}

/// Classifies frames and compares with their labels. No more logits exist than those of a block for each thread.
///
/// # Panics
/// If a label is no class or there are not as many as frames.
pub(in crate::dp) fn score(weights: &Weights, activations: &[f32], labels: &[u16]) -> Score {
    let hidden = weights.hidden;
    assert_eq!(activations.len(), labels.len() * hidden, "a label for each frame");
    let size = block(labels.len());
    let blocks = labels.par_chunks(size).zip(activations.par_chunks((size * hidden).max(1)));
    sum(blocks.map_init(Vec::new, |buffer: &mut Vec<[f32; WIDE]>, (labels, activations)| {
        buffer.resize(labels.len() * weights.forward.panels(), [0.0; WIDE]);
        let tiles = Rows::pack(activations, hidden, labels.len());
        let mut scale = [0.0; FRAMES];
        dispatch(Forward { weights, tiles: &tiles, labels, errors: buffer, scale: &mut scale[..labels.len()] })
    }))
}

/// Frames of each block, alike.
fn block(frames: usize) -> usize {
    let threads = rayon::current_num_threads().min(frames / TALL);
    frames.div_ceil(frames.div_ceil(FRAMES).max(threads).max(1)).max(1)
}

/// Adds in order, so that a sum of losses does not depend on threads.
fn sum(scores: impl IndexedParallelIterator<Item = Score>) -> Score {
    scores.collect::<Vec<_>>().into_iter().fold(Score::default(), Score::plus)
}

#[cfg(test)]
mod tests;
