//! Combines layers: reversed in time, and in parallel. Together these make any recurrent layer bidirectional.

use burn::tensor::Tensor;

use super::rows::{columns, take};
use super::{Backward, GradientRequest, Layer, Layout, Parameters};

/// A layer that reads each sequence from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReversedLayer<L>(pub L);

/// Two layers that read the same input. Outputs and parameters are concatenated, those of the first layer first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcatenatedLayers<A, B>(pub A, pub B);

/// Returns, for each row, the mirrored row of its sequence.
fn mirror(layout: &Layout) -> Vec<i64> {
    layout.sequences().flat_map(|rows| rows.rev().map(|row| row as i64)).collect()
}

impl<L: Layer> Layer for ReversedLayer<L> {
    type Tape = (Vec<i64>, L::Tape);

    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    fn parameters(&self) -> usize {
        self.0.parameters()
    }

    fn passes_back(&self) -> bool {
        self.0.passes_back()
    }

    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        self.0.initialize(parameters, uniform);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, Self::Tape) {
        let mirror = mirror(layout);
        let (output, tape) = self.0.forward(parameters, take(input, &mirror), layout);
        (take(output, &mirror), (mirror, tape))
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        (mirror, tape): Self::Tape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let back = self.0.backward(parameters, tape, take(by_output, &mirror), layout, request);
        Backward { by_input: back.by_input.map(|rows| take(rows, &mirror)), pieces: back.pieces }
    }
}

impl<A: Layer, B: Layer> Layer for ConcatenatedLayers<A, B> {
    type Tape = (A::Tape, B::Tape);

    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    fn outputs(&self) -> usize {
        self.0.outputs() + self.1.outputs()
    }

    fn parameters(&self) -> usize {
        self.0.parameters() + self.1.parameters()
    }

    fn passes_back(&self) -> bool {
        self.0.passes_back() && self.1.passes_back()
    }

    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        let (first, second) = parameters.split_at_mut(self.0.parameters());
        self.0.initialize(first, uniform);
        self.1.initialize(second, uniform);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, Self::Tape) {
        let split = self.0.parameters();
        let (first, tape) = self.0.forward(&parameters.part(0..split), input.clone(), layout);
        let (second, other) = self.1.forward(&parameters.part(split..parameters.len()), input, layout);
        (Tensor::cat(vec![first, second], 1), (tape, other))
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        (tape, other): Self::Tape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let split = self.0.parameters();
        let (left, right) = (self.0.outputs(), self.1.outputs());
        let first = columns(&by_output, 0, left);
        let second = columns(&by_output, left, right);
        let first = self.0.backward(&parameters.part(0..split), tape, first, layout, request);
        let second = self.1.backward(&parameters.part(split..parameters.len()), other, second, layout, request);
        let by_input = first.by_input.zip(second.by_input).map(|(first, second)| first + second);
        let mut pieces = first.pieces;
        pieces.extend(second.pieces);
        Backward { by_input, pieces }
    }
}
