//! A dense layer: a linear map of each row with a bias, followed by tanh.
//!
//! The output is bounded, which keeps the gradients of units within the clip (Papernot et al. 2021, "Tempered sigmoid
//! activations for deep learning with differential privacy").

use burn::tensor::Tensor;

use super::affine::Linear;
use super::{Backward, GradientRequest, Layer, Layout, Parameters};

/// Dimensions. Parameters are `[inputs + 1, outputs]` row-major; the last row is the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dense {
    /// Number of inputs per row.
    pub inputs: usize,
    /// Number of outputs per row.
    pub outputs: usize,
}

/// State of a forward pass.
pub struct DenseTape {
    /// The tape of the linear map.
    linear: <Linear as Layer>::Tape,
    /// The output, `[rows, outputs]`.
    output: Tensor<2>,
}

impl Dense {
    const fn linear(self) -> Linear {
        Linear { inputs: self.inputs, outputs: self.outputs }
    }
}

impl Layer for Dense {
    type Tape = DenseTape;

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn parameters(&self) -> usize {
        self.linear().parameters()
    }

    /// Sets weights uniformly within ±1/√inputs, biases to 0.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        self.linear().initialize(parameters, uniform);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, DenseTape) {
        let (sums, linear) = self.linear().forward(parameters, input, layout);
        let output = sums.tanh();
        (output.clone(), DenseTape { linear, output })
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        tape: DenseTape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let DenseTape { linear, output } = tape;
        let by_sums = by_output * (-(output.clone() * output) + 1.0);
        self.linear().backward(parameters, linear, by_sums, layout, request)
    }
}

/// The layer below the output layer of a linear model: each row as it is, without parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityLayer {
    /// Numbers per row, on both sides.
    pub width: usize,
}

impl Layer for IdentityLayer {
    type Tape = ();

    fn inputs(&self) -> usize {
        self.width
    }

    fn outputs(&self) -> usize {
        self.width
    }

    fn parameters(&self) -> usize {
        0
    }

    fn initialize(&self, _parameters: &mut [f32], _uniform: &mut dyn FnMut() -> f32) {}

    fn forward(&self, _parameters: &Parameters<'_>, input: Tensor<2>, _layout: &Layout) -> (Tensor<2>, ()) {
        (input, ())
    }

    fn backward(
        &self,
        _parameters: &Parameters<'_>,
        (): (),
        by_output: Tensor<2>,
        _layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        Backward { by_input: request.by_input.then_some(by_output), pieces: Vec::new() }
    }
}
