//! Gated recurrent unit (Cho et al. 2014, with the reset gate after the product, as in cuDNN), with back-propagation
//! through all time steps of a sequence.
//!
//! With x the input, h the previous output, W = `[inputs + 1, 3 hidden]` (the last row the bias) and U = `[hidden, 3 hidden]`:
//! r = σ(x Wᵣ + h Uᵣ), z = σ(x W_z + h U_z), c = tanh(x W_c + r ∘ (h U_c)), and the output is (1 − z) ∘ c + z ∘ h.

use burn::tensor::{Tensor, activation::sigmoid};

use crate::layers::layout::RecurrenceOrder;
use crate::layers::outer::OuterGradient;
use crate::layers::product::Matrix;
use crate::layers::rows::{columns, first, grown, take, with_one};
use crate::layers::{Backward, GradientPiece, GradientRequest, Layer, Layout, Parameters};

/// Dimensions. Parameters are W, then U, both row-major; columns for the gates reset, update, candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gru {
    /// Number of inputs per frame.
    pub inputs: usize,
    /// Hidden units.
    pub hidden: usize,
}

/// The values of one time step, for each running sequence, `[running, hidden]` each.
struct GruStep {
    before: Tensor<2>,
    reset: Tensor<2>,
    update: Tensor<2>,
    candidate: Tensor<2>,
    /// h U_c.
    product: Tensor<2>,
}

/// State of a forward pass.
pub struct GruTape {
    walk: RecurrenceOrder,
    /// `[rows, inputs + 1]`.
    input: Tensor<2>,
    steps: Vec<GruStep>,
}

impl Gru {
    const fn split(&self) -> usize {
        (self.inputs + 1) * 3 * self.hidden
    }
}

impl Layer for Gru {
    type Tape = GruTape;

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn outputs(&self) -> usize {
        self.hidden
    }

    fn parameters(&self) -> usize {
        self.split() + self.hidden * 3 * self.hidden
    }

    /// Sets weights uniformly within ±1/√hidden, biases to 0.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        let reach = 1.0 / (self.hidden as f32).sqrt();
        parameters.fill_with(|| uniform() * reach);
        parameters[self.split() - 3 * self.hidden..self.split()].fill(0.0);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, GruTape) {
        let (hidden, walk, input) = (self.hidden, RecurrenceOrder::new(layout), with_one(input));
        let weights = Matrix::new(&parameters.part(0..self.split()), self.inputs + 1, 3 * hidden);
        let recurrent = Matrix::new(&parameters.part(self.split()..parameters.len()), hidden, 3 * hidden);
        let by_input = take(weights.times(input.clone()), &walk.order);
        let running = walk.steps.first().map_or(0, ExactSizeIterator::len);
        let mut output = Tensor::zeros([running, hidden], parameters.device());
        let (mut outputs, mut steps) = (Vec::new(), Vec::new());
        for places in &walk.steps {
            let before = first(&output, places.len());
            let by_input = by_input.clone().slice([places.clone()]);
            let product = recurrent.times(before.clone());
            let gate = |n: usize| columns(&by_input, n * hidden, hidden);
            let reset = sigmoid(gate(0) + columns(&product, 0, hidden));
            let update = sigmoid(gate(1) + columns(&product, hidden, hidden));
            let product = columns(&product, 2 * hidden, hidden);
            let candidate = (gate(2) + reset.clone() * product.clone()).tanh();
            output = candidate.clone() + update.clone() * (before.clone() - candidate.clone());
            outputs.push(output.clone());
            steps.push(GruStep { before, reset, update, candidate, product });
        }
        (take(Tensor::cat(outputs, 0), &walk.place), GruTape { walk, input, steps })
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        tape: GruTape,
        by_output: Tensor<2>,
        _layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let (hidden, GruTape { walk, input, steps }) = (self.hidden, tape);
        let back = Matrix::transposed(&parameters.part(self.split()..parameters.len()), hidden, 3 * hidden);
        let by_output = take(by_output, &walk.order);
        let mut later: Option<Tensor<2>> = None;
        let (mut by_gates, mut by_products, mut befores) = (Vec::new(), Vec::new(), Vec::new());
        for (places, step) in walk.steps.iter().zip(steps).rev() {
            let GruStep { before, reset, update, candidate, product } = step;
            let mut by_h = by_output.clone().slice([places.clone()]);
            if let Some(later) = later.take() {
                by_h = by_h + grown(later, places.len());
            }
            let slope = |gate: &Tensor<2>| gate.clone() * (-gate.clone() + 1.0);
            let by_candidate =
                by_h.clone() * (-update.clone() + 1.0) * (-(candidate.clone() * candidate.clone()) + 1.0);
            let by_update = by_h.clone() * (before.clone() - candidate) * slope(&update);
            let by_reset = by_candidate.clone() * product * slope(&reset);
            let by_product = Tensor::cat(vec![by_reset.clone(), by_update.clone(), by_candidate.clone() * reset], 1);
            later = Some(by_h * update + back.times(by_product.clone()));
            by_gates.push(Tensor::cat(vec![by_reset, by_update, by_candidate], 1));
            by_products.push(by_product);
            befores.push(before);
        }
        let in_order = |mut steps: Vec<Tensor<2>>| {
            steps.reverse();
            take(Tensor::cat(steps, 0), &walk.place)
        };
        let by_gates = in_order(by_gates);
        let by_input = request.by_input.then(|| {
            let weights = parameters.part(0..self.inputs * 3 * hidden);
            Matrix::transposed(&weights, self.inputs, 3 * hidden).times(by_gates.clone())
        });
        let mut pieces: Vec<Box<dyn GradientPiece>> = Vec::new();
        if request.gradient {
            let (weights, recurrent) = (0..self.split(), self.split()..parameters.len());
            pieces.extend(OuterGradient::of_matrix(&parameters.part(weights), input, by_gates));
            let (befores, by_products) = (in_order(befores), in_order(by_products));
            pieces.extend(OuterGradient::of_matrix(&parameters.part(recurrent), befores, by_products));
        }
        Backward { by_input, pieces }
    }
}
