//! Layer normalization (Ba et al. 2016). Each frame is normalized by its own mean and deviation, then scaled and
//! shifted by trained parameters. Only the numbers of one frame are combined, so the layer is safe where batch
//! normalization is not ([`super::normalization`]).

use std::ops::Range;

use burn::tensor::Tensor;

use super::outer::OuterGradient;
use super::product::Matrix;
use super::{Backward, GradientPiece, GradientRequest, Layer, Layout, Parameters};

/// Added to the variance before the square root.
const EPSILON: f32 = 1e-5;

/// Dimensions. Parameters are the scales, then the shifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerNorm {
    /// Numbers per frame, on both sides.
    pub features: usize,
}

/// State of a forward pass.
pub struct LayerNormTape {
    /// The normalized input, `[rows, features]`.
    normal: Tensor<2>,
    /// 1 / deviation, `[rows, 1]`.
    precision: Tensor<2>,
}

impl Layer for LayerNorm {
    type Tape = LayerNormTape;

    fn inputs(&self) -> usize {
        self.features
    }

    fn outputs(&self) -> usize {
        self.features
    }

    fn parameters(&self) -> usize {
        2 * self.features
    }

    /// Sets scales to 1 and shifts to 0.
    fn initialize(&self, parameters: &mut [f32], _uniform: &mut dyn FnMut() -> f32) {
        let (scales, shifts) = parameters.split_at_mut(self.features);
        scales.fill(1.0);
        shifts.fill(0.0);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, _layout: &Layout) -> (Tensor<2>, LayerNormTape) {
        let mean = Matrix::mean(self.features, parameters.device());
        let centred = input.clone() - mean.times(input);
        let precision = (mean.times(centred.clone() * centred.clone()) + EPSILON).sqrt().recip();
        let normal = centred * precision.clone();
        let scales = parameters.part(0..self.features).matrix(1, self.features);
        let shifts = parameters.part(self.features..2 * self.features).matrix(1, self.features);
        (normal.clone() * scales + shifts, LayerNormTape { normal, precision })
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        tape: LayerNormTape,
        by_output: Tensor<2>,
        _layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let LayerNormTape { normal, precision } = tape;
        let by_input = request.by_input.then(|| {
            let mean = Matrix::mean(self.features, parameters.device());
            let by_normal = by_output.clone() * parameters.part(0..self.features).matrix(1, self.features);
            let along = normal.clone() * mean.times(by_normal.clone() * normal.clone());
            (by_normal.clone() - mean.times(by_normal) - along) * precision
        });
        if !request.gradient {
            return Backward { by_input, pieces: Vec::new() };
        }
        let scales = (0..self.features, normal * by_output.clone());
        let shifts = (self.features..2 * self.features, by_output);
        let is_trained = |range: &Range<usize>| parameters.part(range.clone()).coordinates() > 0;
        let trained: Vec<Tensor<2>> =
            [scales, shifts].into_iter().filter(|(range, _)| is_trained(range)).map(|(_, rows)| rows).collect();
        let mut pieces: Vec<Box<dyn GradientPiece>> = Vec::new();
        if !trained.is_empty() {
            pieces.push(Box::new(OuterGradient::sums(Tensor::cat(trained, 1))));
        }
        Backward { by_input, pieces }
    }
}
