//! Long short-term memory over utterances of any lengths, with back-propagation through all of their time.
//!
//! Frames of all utterances lie one after another, without padding; utterances of a group walk in step, the longest
//! first, so that those still running are always the first few. Each row of a step is one chain of fused
//! multiply-adds in a fixed order: what a frame computes does not depend on who walks beside it.

pub(in crate::dp) mod panel;

use std::ops::Range;

use rayon::prelude::*;

use crate::dp::kernels::scalar::{sigmoid, tanh};
use crate::dp::vector::vectorized;
use panel::Panels;

/// Dimensions of the layer. Parameters are `[inputs + 1 + hidden, 4 · hidden]` row-major: rows for the input, the bias and
/// the previous output; columns for the gates input, forget, candidate, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lstm {
    /// Coefficients of a frame.
    pub inputs: usize,
    /// Units.
    pub hidden: usize,
}

/// What a forward pass leaves behind for the backward pass. Reused between passes.
#[derive(Debug, Default)]
pub struct Trace {
    /// Lengths of the utterances, in frames.
    pub lengths: Vec<usize>,
    /// `[frames, inputs + 1 + hidden]`: input, 1, previous output. Before the pass only the inputs need be there.
    pub inputs: Vec<f32>,
    /// `[frames, 4 · hidden]`: gates; after the backward pass their derivatives.
    pub gates: Vec<f32>,
    /// `[frames, hidden]`: cells.
    cells: Vec<f32>,
    /// `[frames, hidden + 1]`: outputs, then 1.
    pub outputs: Vec<f32>,
}

/// The part of a trace that belongs to one group of utterances.
struct Group<'a> {
    lengths: &'a [usize],
    inputs: &'a mut [f32],
    gates: &'a mut [f32],
    cells: &'a mut [f32],
    outputs: &'a mut [f32],
    backward: &'a [f32],
}

/// Utterances of a group, longest first, each with the frame at which it begins.
struct Walk(Vec<(usize, usize)>);

impl Walk {
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

    /// Frames of step `t`, of those still running.
    fn frames(&self, t: usize, into: &mut Vec<usize>) {
        into.clear();
        into.extend(self.0.iter().take_while(|(length, _)| t < *length).map(|(_, start)| start + t));
    }
}

impl Trace {
    /// Makes room for utterances of `lengths`; answers with the inputs of each frame, to be filled by the caller.
    pub fn prepare(&mut self, lstm: &Lstm, lengths: Vec<usize>) -> impl Iterator<Item = &mut [f32]> {
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

    fn groups<'a>(&'a mut self, lstm: &Lstm, backward: &'a [f32]) -> Vec<Group<'a>> {
        let size = self.lengths.len().div_ceil(rayon::current_num_threads()).clamp(1, 24);
        let (mut inputs, mut gates) = (&mut self.inputs[..], &mut self.gates[..]);
        let (mut cells, mut outputs, mut backward) = (&mut self.cells[..], &mut self.outputs[..], backward);
        let groups = self.lengths.chunks(size).map(|lengths| {
            let frames = lengths.iter().sum::<usize>();
            Group {
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

impl Lstm {
    /// Number of parameters.
    pub const fn parameters(&self) -> usize {
        self.width() * 4 * self.hidden
    }

    /// Rows of the parameter matrix.
    pub const fn width(&self) -> usize {
        self.inputs + 1 + self.hidden
    }

    /// Computes cells and outputs of a prepared trace.
    pub fn forward(&self, parameters: &[f32], trace: &mut Trace) {
        let panels = Panels::new(parameters, self.width(), 4 * self.hidden);
        trace.groups(self, &[]).into_par_iter().for_each(|group| {
            vectorized!(self.forward_group(&panels, group));
        });
    }

    /// Replaces the gates of a computed trace by the derivatives of the loss by their arguments, given `backward`
    /// (`[frames, hidden]`), its derivatives by the outputs. The gradient of the parameters over some frames is then
    /// `inputsᵀ · gates` of these.
    pub fn backward(&self, parameters: &[f32], trace: &mut Trace, backward: &[f32]) {
        let rows = 4 * self.hidden;
        let panels = Panels::transposed(&parameters[(self.inputs + 1) * rows..], self.hidden, rows);
        trace.groups(self, backward).into_par_iter().for_each(|group| {
            vectorized!(self.backward_group(&panels, group));
        });
    }

    #[inline(always)]
    fn forward_group(&self, panels: &Panels, group: Group<'_>) {
        let Group { lengths, inputs, gates, cells, outputs, .. } = group;
        let (hidden, width) = (self.hidden, self.width());
        for row in inputs.chunks_exact_mut(width) {
            row[self.inputs] = 1.0;
        }
        for row in outputs.chunks_exact_mut(hidden + 1) {
            row[hidden] = 1.0;
        }
        let walk = Walk::new(lengths);
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
    fn backward_group(&self, panels: &Panels, group: Group<'_>) {
        let Group { lengths, gates, cells, backward, .. } = group;
        let hidden = self.hidden;
        let walk = Walk::new(lengths);
        let mut frames = Vec::with_capacity(lengths.len());
        let mut rows = Vec::new();
        // What comes back from the step after, by place in the walk; a longer utterance enters with zero.
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

/// Four rows of `hidden` in one.
#[inline(always)]
fn quarters(hidden: usize) -> [Range<usize>; 4] {
    [0, 1, 2, 3].map(|gate| gate * hidden..(gate + 1) * hidden)
}

/// Arguments of the gates to gates.
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

/// One step of one utterance: c = f c₋₁ + i g, h = o tanh c.
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

/// One step back of one utterance: gates to the derivatives by their arguments; `by_cell` becomes that of the step before.
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
