//! The output layer with fused softmax and cross-entropy: one forward and one backward pass over the classes for each
//! block of frames, so that the probabilities of a block are still in the cache when they are read again.
//!
//! The kernel stores d = exp(z − max z) − Σ exp(z − max z) · one-hot for each frame. The derivative of the frame's
//! weighted cross-entropy by the logits z is d · weight / Σ exp(z − max z). The factor multiplies the frame's
//! activations instead, which are fewer numbers.

mod back;
mod forward;

use std::ops::Range;

use rayon::prelude::*;

use super::lanes::dispatch;
use super::outer::RowProducts;
use super::pack::{ColumnPanels, ColumnTiles, TALL, WIDE};
use back::BackwardKernel;
use forward::ForwardKernel;

/// Maximum frames of a block: with some 9,000 classes it just fits into a core's own cache.
const FRAMES: usize = 64;
/// The logit of padding beyond the classes.
const NEVER: f32 = -1e30;

/// The layer's parameters in the order in which both passes read them.
pub(crate) struct OutputWeights {
    hidden: usize,
    classes: usize,
    /// `[hidden + 1, classes]`.
    forward: ColumnPanels,
    /// `[classes, hidden]`, for the backward pass.
    back: Option<ColumnPanels>,
}

impl OutputWeights {
    /// Packs `[hidden + 1, classes]` row-major; the last row is the bias.
    ///
    /// # Panics
    /// If the number of parameters differs.
    pub(crate) fn new(parameters: &[f32], hidden: usize, classes: usize, back: bool) -> Self {
        assert_eq!(parameters.len(), (hidden + 1) * classes, "parameters of {hidden} × {classes}");
        let mut forward = ColumnPanels::pack(parameters, hidden + 1, classes);
        forward.fill_beyond(hidden, NEVER);
        let back = back.then(|| ColumnPanels::pack_transposed(&parameters[..hidden * classes], hidden, classes));
        Self { hidden, classes, forward, back }
    }
}

/// Totals over frames.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FrameScore {
    /// Number of frames.
    pub frames: u64,
    /// Number of frames classified correctly.
    pub right: u64,
    /// Sum of the cross-entropies, in nats.
    pub loss: f64,
}

impl FrameScore {
    /// Returns the sum of both totals.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { frames: self.frames + other.frames, right: self.right + other.right, loss: self.loss + other.loss }
    }

    /// Returns the fraction of frames classified correctly; 0 without frames.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.frames.max(1) as f64
    }

    /// Returns the mean cross-entropy in nats; 0 without frames.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.frames.max(1) as f64
    }
}

/// Frames whose logits exist together.
struct FrameBlock<'a> {
    rows: Range<usize>,
    /// Logits, then d: `[panel][frame][48]`.
    errors: &'a mut [[f32; WIDE]],
    /// 1 / Σ exp(z − max z), then this value times the frame's weight.
    scale: &'a mut [f32],
    by_input: &'a mut [f32],
}

/// Rows of a block in tiles of eight: `[tile][column][8 rows]`, with a last column of ones.
struct FrameTiles {
    data: Vec<[f32; TALL]>,
    width: usize,
}

impl FrameTiles {
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

/// Runs both passes over frames.
///
/// * `activations`: `[frames, hidden]`
/// * `labels`: `[frames]`, each below the number of classes
/// * * `weight`: `[frames]`, the factor of each frame's cross-entropy
/// * `by_input`: `[frames, hidden]`, overwritten with the derivatives by the activations
/// * `left`: the left operand of the gradient in place of the activations and a 1, `[frames, width]`, and its width
/// * * `buffer`: a reused buffer of any length
///
/// Returns the operands of the parameters' gradient and the unweighted totals.
///
/// # Panics
/// If a label is not a class or a slice has another length.
pub(crate) fn derivatives(
    weights: &OutputWeights,
    activations: &[f32],
    labels: &[u16],
    weight: &[f32],
    by_input: &mut [f32],
    left: Option<(&[f32], usize)>,
    buffer: Vec<f32>,
) -> (RowProducts, FrameScore) {
    let (frames, hidden) = (labels.len(), weights.hidden);
    assert!(
        weight.len() == frames && activations.len() == frames * hidden && by_input.len() == frames * hidden,
        "activations, labels and weights of {frames} frames"
    );
    let mut errors = ColumnPanels::room(buffer, frames, weights.classes, block(frames));
    let mut scale = vec![0.0; frames];
    let (mut scales, mut by_inputs) = (&mut scale[..], by_input);
    let blocks: Vec<FrameBlock<'_>> = errors
        .blocks_mut()
        .map(|(rows, errors)| FrameBlock {
            errors,
            scale: scales.split_off_mut(..rows.len()).unwrap_or_default(),
            by_input: by_inputs.split_off_mut(..rows.len() * hidden).unwrap_or_default(),
            rows,
        })
        .collect();
    let scores = blocks.into_par_iter().map(|block| {
        let FrameBlock { rows, errors, scale, by_input } = block;
        let tiles = FrameTiles::pack(&activations[rows.start * hidden..], hidden, rows.len());
        let score = dispatch(ForwardKernel { weights, tiles: &tiles, labels: &labels[rows.clone()], errors, scale });
        scale.iter_mut().zip(&weight[rows]).for_each(|(scale, weight)| *scale *= weight);
        dispatch(BackwardKernel { weights, errors, scale, by_input });
        score
    });
    let score = sum(scores);
    let left = match left {
        None => ColumnTiles::pack_with_one(activations, hidden, &scale),
        Some((rows, width)) => ColumnTiles::pack_scaled(rows, width, &scale),
    };
    (RowProducts::new(left, errors), score)
}

/// Classifies frames and compares the result with their labels. Logits exist only for one block per thread at a time.
///
/// # Panics
/// If a label is not a class, or labels and frames differ in number.
pub(crate) fn score(weights: &OutputWeights, activations: &[f32], labels: &[u16]) -> FrameScore {
    let hidden = weights.hidden;
    assert_eq!(activations.len(), labels.len() * hidden, "a label for each frame");
    let size = block(labels.len());
    let blocks = labels.par_chunks(size).zip(activations.par_chunks((size * hidden).max(1)));
    sum(blocks.map_init(Vec::new, |buffer: &mut Vec<[f32; WIDE]>, (labels, activations)| {
        buffer.resize(labels.len() * weights.forward.panels(), [0.0; WIDE]);
        let tiles = FrameTiles::pack(activations, hidden, labels.len());
        let mut scale = [0.0; FRAMES];
        dispatch(ForwardKernel { weights, tiles: &tiles, labels, errors: buffer, scale: &mut scale[..labels.len()] })
    }))
}

/// Returns the number of frames per block, about equal for all blocks.
fn block(frames: usize) -> usize {
    let threads = rayon::current_num_threads().min(frames / TALL);
    frames.div_ceil(frames.div_ceil(FRAMES).max(threads).max(1)).max(1)
}

/// Adds in order, so that a sum of losses does not depend on threads.
fn sum(scores: impl IndexedParallelIterator<Item = FrameScore>) -> FrameScore {
    scores.collect::<Vec<_>>().into_iter().fold(FrameScore::default(), FrameScore::plus)
}

#[cfg(test)]
mod tests;
