//! Long short-term memory (Hochreiter and Schmidhuber 1997, with forget gates), with back-propagation through all time
//! steps of a sequence. With z = (x, 1, h) W, the cell becomes σ(z_f) ∘ c + σ(z_i) ∘ tanh(z_g), the output σ(z_o) ∘
//! tanh(c).
//!
//! On the CPU the recurrence is a hand-written loop over all sequences together; on other devices it consists of tensor
//! operations.

use burn::tensor::{Tensor, activation::sigmoid};

use crate::device::is_cpu;
use crate::layers::layout::RecurrenceOrder;
use crate::layers::lstm::{self, LstmTrace};
use crate::layers::outer::OuterGradient;
use crate::layers::product::Matrix;
use crate::layers::rows::{columns, first, grown, host, take, tensor, with_one};
use crate::layers::{Backward, GradientRequest, Layer, Layout, Parameters};

/// Dimensions. Parameters are `[inputs + 1 + hidden, 4 · hidden]` row-major: rows for the input, the bias and the previous
/// output; columns for the gates input, forget, candidate, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lstm {
    /// Number of inputs per frame.
    pub inputs: usize,
    /// Hidden units.
    pub hidden: usize,
}

/// The values of one time step, for each running sequence, `[running, hidden]` each.
struct LstmStep {
    before: Tensor<2>,
    cell_before: Tensor<2>,
    gates: [Tensor<2>; 4],
    /// The tanh of the new cell.
    squashed: Tensor<2>,
}

/// State of a forward pass.
pub struct Tape(TapeContent);

#[expect(clippy::large_enum_variant, reason = "there is one for each pass")]
enum TapeContent {
    /// State of the CPU loop.
    HostLoop(LstmTrace),
    /// State of the tensor operations; the input is `[rows, inputs + 1]`.
    DeviceSteps { walk: RecurrenceOrder, input: Tensor<2>, steps: Vec<LstmStep> },
}

impl Lstm {
    const fn kernel(&self) -> lstm::LstmKernel {
        lstm::LstmKernel { inputs: self.inputs, hidden: self.hidden }
    }

    /// Returns the index of the first recurrent weight in the parameters.
    const fn split(&self) -> usize {
        (self.inputs + 1) * 4 * self.hidden
    }

    fn fused(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, TapeContent) {
        let (rows, kernel, mut trace) = (layout.rows(), self.kernel(), LstmTrace::default());
        let lengths = layout.sequences().map(|rows| rows.len()).collect();
        let values = host(input);
        let sources = trace.prepare(&kernel, lengths).zip(values.chunks_exact(self.inputs.max(1)));
        sources.for_each(|(row, values)| row.copy_from_slice(values));
        kernel.forward(parameters.host(), &mut trace);
        let mut outputs = Vec::with_capacity(rows * self.hidden);
        for row in trace.outputs.chunks_exact(self.hidden + 1) {
            outputs.extend_from_slice(&row[..self.hidden]);
        }
        (tensor(outputs, [rows, self.hidden], parameters.device()), TapeContent::HostLoop(trace))
    }

    fn walked(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, TapeContent) {
        let (hidden, walk, input) = (self.hidden, RecurrenceOrder::new(layout), with_one(input));
        let weights = Matrix::new(&parameters.part(0..self.split()), self.inputs + 1, 4 * hidden);
        let recurrent = Matrix::new(&parameters.part(self.split()..parameters.len()), hidden, 4 * hidden);
        let by_input = take(weights.times(input.clone()), &walk.order);
        let running = walk.steps.first().map_or(0, ExactSizeIterator::len);
        let mut output = Tensor::zeros([running, hidden], parameters.device());
        let mut cell = output.clone();
        let (mut outputs, mut steps) = (Vec::new(), Vec::new());
        for places in &walk.steps {
            let before = first(&output, places.len());
            let cell_before = first(&cell, places.len());
            let sums = by_input.clone().slice([places.clone()]) + recurrent.times(before.clone());
            let gate = |n: usize| columns(&sums, n * hidden, hidden);
            let gates = [sigmoid(gate(0)), sigmoid(gate(1)), gate(2).tanh(), sigmoid(gate(3))];
            let [input, forget, candidate, out] = gates.clone();
            cell = forget * cell_before.clone() + input * candidate;
            let squashed = cell.clone().tanh();
            output = out * squashed.clone();
            outputs.push(output.clone());
            steps.push(LstmStep { before, cell_before, gates, squashed });
        }
        (take(Tensor::cat(outputs, 0), &walk.place), TapeContent::DeviceSteps { walk, input, steps })
    }

    /// Returns the derivatives by the gates' arguments, `[rows, 4 hidden]`, and the inputs, `[rows, inputs + 1 +
    /// hidden]`.
    fn walk_back(
        &self,
        parameters: &Parameters<'_>,
        walk: &RecurrenceOrder,
        input: Tensor<2>,
        steps: Vec<LstmStep>,
        by_output: Tensor<2>,
    ) -> (Tensor<2>, Tensor<2>) {
        let hidden = self.hidden;
        let back = Matrix::transposed(&parameters.part(self.split()..parameters.len()), hidden, 4 * hidden);
        let by_output = take(by_output, &walk.order);
        let mut later: Option<(Tensor<2>, Tensor<2>)> = None;
        let (mut by_gates, mut befores) = (Vec::new(), Vec::new());
        for (places, step) in walk.steps.iter().zip(steps).rev() {
            let LstmStep { before, cell_before, gates: [input, forget, candidate, out], squashed } = step;
            let (mut by_h, mut by_cell) = (by_output.clone().slice([places.clone()]), None);
            if let Some((h, cell)) = later.take() {
                by_h = by_h + grown(h, places.len());
                by_cell = Some(grown(cell, places.len()));
            }
            let slope = |gate: &Tensor<2>| gate.clone() * (-gate.clone() + 1.0);
            let own = by_h.clone() * out.clone() * (-(squashed.clone() * squashed.clone()) + 1.0);
            let by_cell = by_cell.map_or_else(|| own.clone(), |later| later + own.clone());
            let gates = Tensor::cat(
                vec![
                    by_cell.clone() * candidate.clone() * slope(&input),
                    by_cell.clone() * cell_before * slope(&forget),
                    by_cell.clone() * input * (-(candidate.clone() * candidate) + 1.0),
                    by_h * squashed * slope(&out),
                ],
                1,
            );
            later = Some((back.times(gates.clone()), by_cell * forget));
            by_gates.push(gates);
            befores.push(before);
        }
        let in_order = |mut steps: Vec<Tensor<2>>| {
            steps.reverse();
            take(Tensor::cat(steps, 0), &walk.place)
        };
        (in_order(by_gates), Tensor::cat(vec![input, in_order(befores)], 1))
    }
}

impl Layer for Lstm {
    type Tape = Tape;

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn outputs(&self) -> usize {
        self.hidden
    }

    fn parameters(&self) -> usize {
        self.kernel().parameters()
    }

    /// Sets weights uniformly within ±1/√hidden. The bias is 1 for the forget gate, which starts open, and 0 for the
    /// others.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        let reach = 1.0 / (self.hidden as f32).sqrt();
        parameters.fill_with(|| uniform() * reach);
        let bias = self.inputs * 4 * self.hidden;
        parameters[bias..bias + 4 * self.hidden].fill(0.0);
        parameters[bias + self.hidden..bias + 2 * self.hidden].fill(1.0);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, Tape) {
        let (output, kept) = if is_cpu(parameters.device()) {
            self.fused(parameters, input, layout)
        } else {
            self.walked(parameters, input, layout)
        };
        (output, Tape(kept))
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        tape: Tape,
        by_output: Tensor<2>,
        _layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let (width, gates) = (self.inputs + 1 + self.hidden, 4 * self.hidden);
        let weights = || Matrix::transposed(&parameters.part(0..self.inputs * gates), self.inputs, gates);
        let (by_input, piece) = match tape.0 {
            TapeContent::HostLoop(mut trace) => {
                self.kernel().backward(parameters.host(), &mut trace, &host(by_output));
                let rows = trace.gates.len() / gates.max(1);
                let derivatives = || tensor(trace.gates.clone(), [rows, gates], parameters.device());
                let by_input = request.by_input.then(|| weights().times(derivatives()));
                let shape = [width, gates];
                let piece = if request.gradient {
                    OuterGradient::of_host_matrix(parameters, trace.inputs, trace.gates, shape)
                } else {
                    None
                };
                (by_input, piece)
            }
            TapeContent::DeviceSteps { walk, input, steps } => {
                let (by_gates, inputs) = self.walk_back(parameters, &walk, input, steps, by_output);
                let by_input = request.by_input.then(|| weights().times(by_gates.clone()));
                let piece =
                    if request.gradient { OuterGradient::of_matrix(parameters, inputs, by_gates) } else { None };
                (by_input, piece)
            }
        };
        Backward { by_input, pieces: piece.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::Lstm;
    use crate::device::devices_present;
    use crate::layers::rows::{host, tensor};
    use crate::layers::{Layer, Layout, Parameters};

    #[test]
    fn the_loop_and_the_walk_compute_the_same() {
        let (lstm, layout) = (Lstm { inputs: 3, hidden: 5 }, Layout::new([vec![4, 0, 9], vec![1], vec![6, 6]]));
        let values = |count: usize| (0..count).map(|n| (n * 37 % 101) as f32 / 100.0 - 0.5).collect::<Vec<_>>();
        let (host_parameters, rows) = (values(lstm.parameters()), layout.rows());
        let device = &devices_present()[0].1;
        let parameters = Parameters::load(&host_parameters, device);
        let input = tensor(values(rows * 3), [rows, 3], device);
        let (looped, tape) = lstm.fused(&parameters, input.clone(), &layout);
        let (walked, other) = lstm.walked(&parameters, input, &layout);
        let close = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close(host(looped), host(walked)));
        let by_output = tensor(values(rows * 5), [rows, 5], device);
        let [mut first, mut second] = [vec![0.0; lstm.parameters()], vec![0.0; lstm.parameters()]];
        for (kept, target) in [(tape, &mut first), (other, &mut second)] {
            let request = super::GradientRequest::ALL;
            let back = lstm.backward(&parameters, super::Tape(kept), by_output.clone(), &layout, request);
            back.pieces[0].add_to(target);
        }
        assert!(close(first, second));
    }
}
