//! The output layer with softmax and cross-entropy in one: logits never exist for more than a tile of frames.

use std::ops::Range;

use rayon::prelude::*;

use super::scalar::exp;
use crate::dp::matrix::{Into, View, multiply};
use crate::dp::vector::vectorized;

/// Frames whose logits exist at a time. A constant: tiles of a unit begin at its first frame.
pub const TILE: usize = 256;

/// Dimensions of the layer. Parameters are `[hidden + 1, classes]` row-major; the last row is the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Inputs, without the constant 1.
    pub hidden: usize,
    /// Outputs.
    pub classes: usize,
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

impl Linear {
    /// Number of parameters.
    pub const fn parameters(&self) -> usize {
        (self.hidden + 1) * self.classes
    }

    /// Adds to `gradient` the gradient of `weight` times the sum of cross-entropies of some frames, and writes that loss's
    /// derivatives by the activations.
    ///
    /// * `parameters`, `gradient`: `[hidden + 1, classes]`
    /// * `activations`: `[frames, hidden + 1]`, the last column 1
    /// * `labels`: `[frames]`
    /// * `backward`: `[frames, hidden]`, overwritten
    /// * `logits`: scratch, any length
    #[expect(clippy::too_many_arguments, reason = "slices in, slices out")]
    pub fn backward(
        &self,
        parameters: &[f32],
        activations: &[f32],
        labels: &[u16],
        weight: f32,
        gradient: &mut [f32],
        backward: &mut [f32],
        logits: &mut Vec<f32>,
    ) -> Score {
        let (width, classes) = (self.hidden + 1, self.classes);
        let inner = View::new(&parameters[..self.hidden * classes], self.hidden, classes).transposed();
        self.tiles(parameters, activations, labels.len(), logits, |frames, logits| {
            let rows = logits.par_chunks_mut(classes).zip(&labels[frames.clone()]);
            let score = sum(rows.map(|(row, label)| vectorized!(derivative(row, usize::from(*label), weight))));
            let tile = View::new(&activations[frames.start * width..frames.end * width], frames.len(), width);
            let errors = View::new(logits, frames.len(), classes);
            multiply(gradient, tile.transposed(), errors, Into::Add);
            multiply(&mut backward[frames.start * self.hidden..frames.end * self.hidden], errors, inner, Into::Replace);
            score
        })
    }

    /// Classifies frames and compares with their labels.
    pub fn score(&self, parameters: &[f32], activations: &[f32], labels: &[u16], logits: &mut Vec<f32>) -> Score {
        self.tiles(parameters, activations, labels.len(), logits, |frames, logits| {
            let rows = logits.par_chunks_mut(self.classes).zip(&labels[frames]);
            sum(rows.map(|(row, label)| vectorized!(softmax(row, usize::from(*label)).0)))
        })
    }

    /// Computes logits tile by tile and hands each tile on.
    fn tiles(
        &self,
        parameters: &[f32],
        activations: &[f32],
        frames: usize,
        logits: &mut Vec<f32>,
        mut each: impl FnMut(Range<usize>, &mut [f32]) -> Score,
    ) -> Score {
        let width = self.hidden + 1;
        let matrix = View::new(parameters, width, self.classes);
        if logits.len() < TILE.min(frames) * self.classes {
            logits.resize(TILE.min(frames) * self.classes, 0.0);
        }
        let mut total = Score::default();
        for start in (0..frames).step_by(TILE) {
            let tile = start..(start + TILE).min(frames);
            let rows = View::new(&activations[tile.start * width..tile.end * width], tile.len(), width);
            let logits = &mut logits[..tile.len() * self.classes];
            multiply(logits, rows, matrix, Into::Replace);
            total = total.plus(each(tile, logits));
        }
        total
    }
}

/// Adds in order, so that a sum of losses does not depend on threads.
fn sum(scores: impl IndexedParallelIterator<Item = Score>) -> Score {
    scores.collect::<Vec<_>>().into_iter().fold(Score::default(), Score::plus)
}

/// Makes a row of logits that of `weight` · (softmax − one-hot).
#[inline(always)]
fn derivative(row: &mut [f32], label: usize, weight: f32) -> Score {
    let (score, sum) = softmax(row, label);
    let factor = weight / sum;
    for value in row.iter_mut() {
        *value *= factor;
    }
    row[label] -= weight;
    score
}

/// Makes a row of logits that of exp(logit − highest); answers with its score and its sum.
#[inline(always)]
fn softmax(row: &mut [f32], label: usize) -> (Score, f32) {
    const LANES: usize = 32;
    let mut highest = [f32::NEG_INFINITY; LANES];
    let (wide, rest) = row.as_chunks::<LANES>();
    for values in wide {
        for (lane, value) in highest.iter_mut().zip(values) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let highest = highest.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let (own, mut sums) = (row[label], [0.0_f32; LANES]);
    let (wide, rest) = row.as_chunks_mut::<LANES>();
    for values in wide {
        for (lane, value) in sums.iter_mut().zip(values) {
            *value = exp(*value - highest);
            *lane += *value;
        }
    }
    let mut sum = sums.iter().sum::<f32>();
    for value in rest {
        *value = exp(*value - highest);
        sum += *value;
    }
    let loss = f64::from(sum).ln() + f64::from(highest) - f64::from(own);
    (Score { frames: 1, right: u64::from(own >= highest), loss }, sum)
}
