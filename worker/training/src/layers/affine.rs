//! A linear map of each frame, with a bias.

use burn::tensor::Tensor;

use super::outer::OuterGradient;
use super::product::Matrix;
use super::rows::with_one;
use super::{Backward, GradientRequest, Layer, Layout, Parameters};

/// Dimensions. Parameters are `[inputs + 1, outputs]` row-major; the last row is the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Number of inputs per frame.
    pub inputs: usize,
    /// Number of outputs per frame.
    pub outputs: usize,
}

impl Layer for Linear {
    /// The input and a 1, `[rows, inputs + 1]`.
    type Tape = Tensor<2>;

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn parameters(&self) -> usize {
        (self.inputs + 1) * self.outputs
    }

    /// Sets weights uniformly within ±1/√inputs, biases to 0.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        let reach = 1.0 / (self.inputs as f32).sqrt();
        parameters.fill_with(|| uniform() * reach);
        parameters[self.inputs * self.outputs..].fill(0.0);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, _layout: &Layout) -> (Tensor<2>, Tensor<2>) {
        let input = with_one(input);
        (Matrix::new(parameters, self.inputs + 1, self.outputs).times(input.clone()), input)
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        input: Tensor<2>,
        by_output: Tensor<2>,
        _layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let by_input = request.by_input.then(|| {
            let weights = parameters.part(0..self.inputs * self.outputs);
            Matrix::transposed(&weights, self.inputs, self.outputs).times(by_output.clone())
        });
        let piece = if request.gradient { OuterGradient::of_matrix(parameters, input, by_output) } else { None };
        Backward { by_input, pieces: piece.into_iter().collect() }
    }
}
