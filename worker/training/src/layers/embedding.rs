//! A trained vector for each symbol.
//!
//! The gradient of a unit is zero except at the symbols of that unit. Its norm is computed over those only, and blocks
//! of the table without such symbols are not written.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::rows::{host, take};
use super::{Backward, GradientPiece, GradientRequest, GradientSink, Layer, Layout, MatrixBlock, Parameters};

/// Number of table rows that are streamed at a time.
const BLOCK: usize = 256;

/// Dimensions. Parameters are `[symbols, outputs]` row-major. The input is one column of whole numbers below `symbols`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedding {
    /// Number of symbols, at most 2²⁴: an `f32` represents integers up to there exactly.
    pub symbols: usize,
    /// Length of a vector.
    pub outputs: usize,
}

impl Layer for Embedding {
    /// The symbol of each row.
    type Tape = Vec<usize>;

    fn inputs(&self) -> usize {
        1
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn parameters(&self) -> usize {
        self.symbols * self.outputs
    }

    fn passes_back(&self) -> bool {
        false
    }

    /// Draws all values uniformly within ±1.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        parameters.fill_with(uniform);
    }

    /// Looks up the vector of each symbol.
    ///
    /// # Panics
    /// If an input is not a symbol.
    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, _layout: &Layout) -> (Tensor<2>, Vec<usize>) {
        let symbol = |value: f32| {
            let whole = value >= 0.0 && value.fract() == 0.0;
            assert!(whole && (value as usize) < self.symbols, "a symbol is a whole number below {}", self.symbols);
            value as usize
        };
        let symbols: Vec<usize> = host(input).into_iter().map(symbol).collect();
        let numbers: Vec<i64> = symbols.iter().map(|symbol| *symbol as i64).collect();
        (take(parameters.matrix(self.symbols, self.outputs), &numbers), symbols)
    }

    fn backward(
        &self,
        _parameters: &Parameters<'_>,
        symbols: Vec<usize>,
        by_output: Tensor<2>,
        _layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let lookup = || EmbeddingPiece { layer: *self, symbols, by_output: host(by_output) };
        let pieces = if request.gradient { vec![Box::new(lookup()) as _] } else { Vec::new() };
        Backward { by_input: None, pieces }
    }
}

/// The gradient of an embedding: sums of rows by symbol.
struct EmbeddingPiece {
    layer: Embedding,
    symbols: Vec<usize>,
    /// `[rows, outputs]`.
    by_output: Vec<f32>,
}

impl EmbeddingPiece {
    /// Adds row `row` to `target`.
    fn add(&self, row: usize, target: &mut [f32]) {
        let width = self.layer.outputs;
        target.iter_mut().zip(&self.by_output[row * width..(row + 1) * width]).for_each(|(sum, value)| *sum += value);
    }
}

impl GradientPiece for EmbeddingPiece {
    fn parameters(&self) -> usize {
        Layer::parameters(&self.layer)
    }

    /// Returns Σ over the unit's symbols of the squared norm of the sum of its rows. This costs T · outputs operations,
    /// less than any alternative.
    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        let one = |unit: usize| {
            let mut sums: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
            for row in layout.unit(unit) {
                self.add(row, sums.entry(self.symbols[row]).or_insert_with(|| vec![0.0; self.layer.outputs]));
            }
            sums.values().flatten().map(|value| f64::from(*value) * f64::from(*value)).sum()
        };
        (0..layout.units()).into_par_iter().map(one).collect()
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        let width = self.layer.outputs;
        let block = [BLOCK.min(self.layer.symbols), width];
        sink.matrix(at, [self.layer.symbols, width], block, &|unit: usize, block: &MatrixBlock, target: &mut [f32]| {
            let mut touched = false;
            for row in layout.unit(unit).filter(|row| block.rows.contains(&self.symbols[*row])) {
                if !touched {
                    target.fill(0.0);
                    touched = true;
                }
                let start = (self.symbols[row] - block.rows.start) * width;
                self.add(row, &mut target[start..start + width]);
            }
            touched
        });
    }

    fn add_to(&self, target: &mut [f32]) {
        let width = self.layer.outputs;
        for (row, symbol) in self.symbols.iter().enumerate() {
            self.add(row, &mut target[symbol * width..(symbol + 1) * width]);
        }
    }
}
