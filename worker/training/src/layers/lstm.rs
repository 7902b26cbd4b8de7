//! The CPU loop of the long short-term memory over utterances of any length, with back-propagation through all time
//! steps.
//!
//! Frames of all utterances lie one after another, without padding. The utterances of a group advance together, the
//! longest first, so those that are still running are always a prefix. Each row of a step is one chain of fused
//! multiply-adds in a fixed order: the result for a frame does not depend on the other utterances of the group.

pub(crate) mod panel;

use std::ops::Range;

use rayon::prelude::*;

use crate::kernels::scalar::{sigmoid, tanh};
use crate::vector::vectorized;
use panel::PanelMatrix;

/// Dimensions of the layer. Parameters are `[inputs + 1 + hidden, 4 · hidden]` row-major: rows for the input, the bias
/// and the previous output; columns for the gates input, forget, candidate, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LstmKernel {
    /// Coefficients per frame.
    pub inputs: usize,
    /// Hidden units.
    pub hidden: usize,
}

/// State of a forward pass that the backward pass reads. The buffers are reused between passes.
#[derive(Debug, Default)]
pub struct LstmTrace {
    /// Lengths of the utterances, in frames.
    pub lengths: Vec<usize>,
    /// `[frames, inputs + 1 + hidden]`: input, 1, previous output. Before the pass only the inputs must be set.
    pub inputs: Vec<f32>,
    /// `[frames, 4 · hidden]`: gates; after the backward pass, their derivatives.
    pub gates: Vec<f32>,
    /// `[frames, hidden]`: cells.
    cells: Vec<f32>,
    /// `[frames, hidden + 1]`: outputs, then 1.
    pub outputs: Vec<f32>,
}

/// The part of a trace for one group of utterances.
struct UtteranceGroup<'a> {
    lengths: &'a [usize],
    inputs: &'a mut [f32],
    gates: &'a mut [f32],
    cells: &'a mut [f32],
    outputs: &'a mut [f32],
    backward: &'a [f32],
}

/// Length and first frame of each utterance of a group, the longest first.
struct UtteranceOrder(Vec<(usize, usize)>);

impl UtteranceOrder {
    fn new(lengths: &[usize]) -> Self {
        let mut start = 0;
        let mut walk = Vec::with_capacity(lengths.len());
        for length in lengths {
            walk.push((*length, start));
            start += length;
        }
        walk.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        Self(walk)
    }

    fn steps(&self) -> usize {
        self.0.first().map_or(0, |(length, _)| *length)
    }

    /// Writes the frames of step `t` of all running utterances to `into`.
    fn frames(&self, t: usize, into: &mut Vec<usize>) {
        into.clear();
        into.extend(self.0.iter().take_while(|(length, _)| t < *length).map(|(_, start)| start + t));
    }
}

impl LstmTrace {
    /// Allocates the buffers for utterances of `lengths` and returns the inputs of each frame, which the caller sets.
    pub fn prepare(&mut self, lstm: &LstmKernel, lengths: Vec<usize>) -> impl Iterator<Item = &mut [f32]> {
        let frames = lengths.iter().sum::<usize>();
        self.lengths = lengths;
        let width = lstm.width();
        for (buffer, size) in [
            (&mut self.inputs, width),
            (&mut self.gates, 4 * lstm.hidden),
            (&mut self.cells, lstm.hidden),
            (&mut self.outputs, lstm.hidden + 1),
        ] {
            buffer.resize(frames * size, 0.0);
        }
        self.inputs.chunks_exact_mut(width).map(|row| &mut row[..lstm.inputs])
    }

    fn groups<'a>(&'a mut self, lstm: &LstmKernel, backward: &'a [f32]) -> Vec<UtteranceGroup<'a>> {
        let size = self.lengths.len().div_ceil(rayon::current_num_threads()).clamp(1, 24);
        let (mut inputs, mut gates) = (&mut self.inputs[..], &mut self.gates[..]);
        let (mut cells, mut outputs, mut backward) = (&mut self.cells[..], &mut self.outputs[..], backward);
        let groups = self.lengths.chunks(size).map(|lengths| {
            let frames = lengths.iter().sum::<usize>();
            UtteranceGroup {
                lengths,
                inputs: inputs.split_off_mut(..frames * lstm.width()).unwrap_or_default(),
                gates: gates.split_off_mut(..frames * 4 * lstm.hidden).unwrap_or_default(),
                cells: cells.split_off_mut(..frames * lstm.hidden).unwrap_or_default(),
                outputs: outputs.split_off_mut(..frames * (lstm.hidden + 1)).unwrap_or_default(),
                backward: backward.split_off(..(frames * lstm.hidden).min(backward.len())).unwrap_or_default(),
            }
        });
        groups.collect()
    }
}

impl LstmKernel {
    /// Returns the number of parameters.
    pub const fn parameters(&self) -> usize {
        self.width() * 4 * self.hidden
    }

    /// Returns the number of rows of the parameter matrix.
    pub const fn width(&self) -> usize {
        self.inputs + 1 + self.hidden
    }

    /// Computes the cells and outputs of a prepared trace.
    pub fn forward(&self, parameters: &[f32], trace: &mut LstmTrace) {
        let panels = PanelMatrix::new(parameters, self.width(), 4 * self.hidden);
        trace.groups(self, &[]).into_par_iter().for_each(|group| {
            vectorized!(self.forward_group(&panels, group));
        });
    }

    /// Replaces the gates of a computed trace by the derivatives of the loss by their arguments, given `backward`
    /// (`[frames, hidden]`), the derivatives of the loss by the outputs. The gradient of the parameters over a range of
    /// frames then is `inputsᵀ · gates` of that range.
    pub fn backward(&self, parameters: &[f32], trace: &mut LstmTrace, backward: &[f32]) {
        let rows = 4 * self.hidden;
        let panels = PanelMatrix::transposed(&parameters[(self.inputs + 1) * rows..], self.hidden, rows);
        trace.groups(self, backward).into_par_iter().for_each(|group| {
            vectorized!(self.backward_group(&panels, group));
        });
    }

    #[inline(always)]
    fn forward_group(&self, panels: &PanelMatrix, group: UtteranceGroup<'_>) {
        let UtteranceGroup { lengths, inputs, gates, cells, outputs, .. } = group;
        let (hidden, width) = (self.hidden, self.width());
        for row in inputs.chunks_exact_mut(width) {
            row[self.inputs] = 1.0;
        }
        for row in outputs.chunks_exact_mut(hidden + 1) {
            row[hidden] = 1.0;
        }
        let walk = UtteranceOrder::new(lengths);
        for (_, start) in &walk.0 {
            inputs[start * width + self.inputs + 1..(start + 1) * width].fill(0.0);
        }
        let mut frames = Vec::with_capacity(lengths.len());
        let mut rows = (Vec::new(), Vec::new());
        for t in 0..walk.steps() {
            walk.frames(t, &mut frames);
            offsets(&frames, width, &mut rows.0);
            offsets(&frames, 4 * hidden, &mut rows.1);
            panels.multiply(inputs, &rows.0, gates, &rows.1);
            for (frame, (length, _)) in frames.iter().copied().zip(&walk.0) {
                let gates = &mut gates[frame * 4 * hidden..][..4 * hidden];
                activate(gates, hidden);
                let (before, now) = cells.split_at_mut(frame * hidden);
                let before = if t == 0 { None } else { Some(&before[(frame - 1) * hidden..]) };
                let output = &mut outputs[frame * (hidden + 1)..][..hidden];
                advance(gates, before, &mut now[..hidden], output);
                if t + 1 < *length {
                    inputs[(frame + 1) * width + self.inputs + 1..][..hidden].copy_from_slice(output);
                }
            }
        }
    }

    #[inline(always)]
    fn backward_group(&self, panels: &PanelMatrix, group: UtteranceGroup<'_>) {
        let UtteranceGroup { lengths, gates, cells, backward, .. } = group;
        let hidden = self.hidden;
        let walk = UtteranceOrder::new(lengths);
        let mut frames = Vec::with_capacity(lengths.len());
        let mut rows = Vec::new();
        // Derivatives from the following step, by place in the order; a longer utterance starts with zero.
        let mut by_output = vec![0.0; lengths.len() * hidden];
        let mut by_cell = vec![0.0; lengths.len() * hidden];
        let places: Vec<usize> = (0..lengths.len()).map(|place| place * hidden).collect();
        for t in (0..walk.steps()).rev() {
            walk.frames(t, &mut frames);
            for (place, frame) in frames.iter().copied().enumerate() {
                let place = place * hidden..(place + 1) * hidden;
                let before = (t > 0).then(|| &cells[(frame - 1) * hidden..][..hidden]);
                retreat(
                    &mut gates[frame * 4 * hidden..][..4 * hidden],
                    before,
                    &cells[frame * hidden..][..hidden],
                    &backward[frame * hidden..][..hidden],
                    &by_output[place.clone()],
                    &mut by_cell[place],
                );
            }
            if t > 0 {
                offsets(&frames, 4 * hidden, &mut rows);
                panels.multiply(gates, &rows, &mut by_output, &places[..frames.len()]);
            }
        }
    }
}

#[inline(always)]
fn offsets(frames: &[usize], width: usize, into: &mut Vec<usize>) {
    into.clear();
    into.extend(frames.iter().map(|frame| frame * width));
}

/// Returns the ranges of the four gates in a row.
#[inline(always)]
fn quarters(hidden: usize) -> [Range<usize>; 4] {
    [0, 1, 2, 3].map(|gate| gate * hidden..(gate + 1) * hidden)
}

/// Replaces the arguments of the gates by the gates.
#[inline(always)]
fn activate(gates: &mut [f32], hidden: usize) {
    let [input, _, candidate, output] = quarters(hidden);
    for gate in &mut gates[input.start..candidate.start] {
        *gate = sigmoid(*gate);
    }
    for gate in &mut gates[candidate] {
        *gate = tanh(*gate);
    }
    for gate in &mut gates[output] {
        *gate = sigmoid(*gate);
    }
}

/// Computes one step of one utterance: c = f c₋₁ + i g, h = o tanh c.
#[inline(always)]
fn advance(gates: &[f32], before: Option<&[f32]>, cells: &mut [f32], outputs: &mut [f32]) {
    let hidden = cells.len();
    let [i, f, g, o] = quarters(hidden).map(|gate| &gates[gate]);
    for n in 0..hidden {
        cells[n] = i[n] * g[n];
    }
    if let Some(before) = before {
        for n in 0..hidden {
            cells[n] = f[n].mul_add(before[n], cells[n]);
        }
    }
    for n in 0..hidden {
        outputs[n] = o[n] * tanh(cells[n]);
    }
}

/// Computes one backward step of one utterance: replaces the gates by the derivatives by their arguments, and `by_cell`
/// by the derivative of the previous step's cell.
#[inline(always)]
fn retreat(
    gates: &mut [f32],
    before: Option<&[f32]>,
    cells: &[f32],
    backward: &[f32],
    by_output: &[f32],
    by_cell: &mut [f32],
) {
    let hidden = cells.len();
    let (by_output, backward, by_cell) = (&by_output[..hidden], &backward[..hidden], &mut by_cell[..hidden]);
    let (i, rest) = gates.split_at_mut(hidden);
    let (f, rest) = rest.split_at_mut(hidden);
    let (g, o) = rest.split_at_mut(hidden);
    let o = &mut o[..hidden];
    for n in 0..hidden {
        let squashed = tanh(cells[n]);
        let by_h = backward[n] + by_output[n];
        let by_c = (by_h * o[n]).mul_add(1.0 - squashed * squashed, by_cell[n]);
        o[n] = by_h * squashed * o[n] * (1.0 - o[n]);
        by_cell[n] = by_c * f[n];
        let forget = by_c * f[n] * (1.0 - f[n]);
        let (input, candidate) = (i[n], g[n]);
        i[n] = by_c * candidate * input * (1.0 - input);
        g[n] = by_c * input * (1.0 - candidate * candidate);
        f[n] = forget;
    }
    if let Some(before) = before {
        for n in 0..hidden {
            f[n] *= before[n];
        }
    } else {
        f.fill(0.0);
    }
}
