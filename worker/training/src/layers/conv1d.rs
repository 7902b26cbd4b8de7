//! Convolution over the frames of each sequence, with as many output frames as input frames. Beyond the ends of a
//! sequence the input is zero; frames of the neighbouring sequence are never read.

use burn::tensor::Tensor;

use super::outer::OuterGradient;
use super::product::Matrix;
use super::rows::{take, with_one, with_zero_row};
use super::{Backward, GradientRequest, Layer, Layout, Parameters};

/// Dimensions. Parameters are `[width · inputs + 1, outputs]` row-major: rows for the inputs of the frames from
/// (width − 1)/2 before to (width − 1)/2 after, then the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv1d {
    /// Number of inputs per frame.
    pub inputs: usize,
    /// Number of outputs per frame.
    pub outputs: usize,
    /// Number of frames that one output reads.
    width: usize,
}

impl Conv1d {
    /// Returns a convolution over `width` frames.
    ///
    /// # Panics
    /// If the width is even, because then there is no middle frame.
    pub const fn new(inputs: usize, outputs: usize, width: usize) -> Self {
        assert!(width % 2 == 1, "an odd number of frames has a middle");
        Self { inputs, outputs, width }
    }

    const fn rows(&self) -> usize {
        self.width * self.inputs + 1
    }

    /// Returns, for each row, the row `by` frames later in its sequence, or the row after the last if there is none.
    fn shifted(layout: &Layout, by: isize) -> Vec<i64> {
        let mut numbers = Vec::with_capacity(layout.rows());
        for sequence in layout.sequences() {
            for row in sequence.clone() {
                let other = row.checked_add_signed(by).filter(|other| sequence.contains(other));
                numbers.push(other.unwrap_or(layout.rows()) as i64);
            }
        }
        numbers
    }

    /// Returns the offsets of the input frames, in the order of the parameters.
    fn reach(&self) -> impl Iterator<Item = isize> + use<> {
        let half = (self.width / 2) as isize;
        -half..=half
    }
}

impl Layer for Conv1d {
    /// The inputs of each output, and a 1: `[rows, width · inputs + 1]`.
    type Tape = Tensor<2>;

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn parameters(&self) -> usize {
        self.rows() * self.outputs
    }

    /// Sets weights uniformly within ±1/√(width · inputs), biases to 0.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        let reach = 1.0 / ((self.width * self.inputs) as f32).sqrt();
        parameters.fill_with(|| uniform() * reach);
        parameters[(self.rows() - 1) * self.outputs..].fill(0.0);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, Tensor<2>) {
        let padded = with_zero_row(input);
        let inputs = self.reach().map(|by| take(padded.clone(), &Self::shifted(layout, by))).collect();
        let inputs = with_one(Tensor::cat(inputs, 1));
        (Matrix::new(parameters, self.rows(), self.outputs).times(inputs.clone()), inputs)
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        seen: Tensor<2>,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let by_input = request.by_input.then(|| {
            // The contribution of a row to the output `by` frames earlier is propagated back from there.
            let taps = self.reach().enumerate().map(|(tap, by)| {
                let size = self.inputs * self.outputs;
                let weights = parameters.part(tap * size..(tap + 1) * size);
                let by_seen = Matrix::transposed(&weights, self.inputs, self.outputs).times(by_output.clone());
                take(with_zero_row(by_seen), &Self::shifted(layout, -by))
            });
            taps.reduce(|sum, tap| sum + tap).unwrap_or_else(|| by_output.clone())
        });
        let piece = if request.gradient { OuterGradient::of_matrix(parameters, seen, by_output) } else { None };
        Backward { by_input, pieces: piece.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::Conv1d;
    use crate::layers::Layout;

    #[test]
    fn a_frame_is_never_seen_from_another_sequence() {
        let layout = Layout::new([vec![3, 1], vec![2]]);
        assert_eq!(Conv1d::shifted(&layout, 1), [1, 2, 6, 6, 5, 6]);
        assert_eq!(Conv1d::shifted(&layout, -2), [6, 6, 0, 6, 6, 6]);
    }
}
