//! A trained vector for each of some symbols.
//!
//! A unit's gradient is zero but for the symbols it used: its norm is taken over those only, and blocks of the table that it
//! did not touch are not even written.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::rows::{host, take};
use super::{Backward, Block, Layer, Layout, Parameters, Piece, Sink, Wanted};

/// Rows of the table that are streamed at a time.
const BLOCK: usize = 256;

/// Dimensions. Parameters are `[symbols, outputs]` row-major. The input is one column of whole numbers below `symbols`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedding {
    /// How many symbols: at most 2²⁴, what an `f32` counts exactly.
    pub symbols: usize,
    /// Numbers of a vector.
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

    /// Uniform within 1.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        parameters.fill_with(uniform);
    }

    /// # Panics
    /// If a number of the input is no symbol.
    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, _layout: &Layout) -> (Tensor<2>, Vec<usize>) {
        let known = |value: f32| {
            let whole = value >= 0.0 && value.fract() == 0.0;
            assert!(whole && (value as usize) < self.symbols, "a symbol is a whole number below {}", self.symbols);
            value as usize
        };
        let symbols: Vec<usize> = host(input).into_iter().map(known).collect();
        let numbers: Vec<i64> = symbols.iter().map(|symbol| *symbol as i64).collect();
        (take(parameters.matrix(self.symbols, self.outputs), &numbers), symbols)
    }

    fn backward(
        &self,
        _parameters: &Parameters<'_>,
        symbols: Vec<usize>,
        by_output: Tensor<2>,
        _layout: &Layout,
        wanted: Wanted,
    ) -> Backward {
        let lookup = || Lookup { layer: *self, symbols, by_output: host(by_output) };
        let pieces = if wanted.gradient { vec![Box::new(lookup()) as _] } else { Vec::new() };
        Backward { by_input: None, pieces }
    }
}

/// Sums of rows by symbol.
struct Lookup {
    layer: Embedding,
    symbols: Vec<usize>,
    /// `[rows, outputs]`.
    by_output: Vec<f32>,
}

impl Lookup {
    /// Adds row `row` to a vector.
    fn add(&self, row: usize, target: &mut [f32]) {
        let width = self.layer.outputs;
        target.iter_mut().zip(&self.by_output[row * width..(row + 1) * width]).for_each(|(sum, value)| *sum += value);
    }
}

impl Piece for Lookup {
    fn parameters(&self) -> usize {
        Layer::parameters(&self.layer)
    }

    /// Σ over the unit's symbols of the squared norm of the sum of its rows: T · outputs operations, always the cheapest.
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

    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn Sink) {
        let width = self.layer.outputs;
        let block = [BLOCK.min(self.layer.symbols), width];
        sink.matrix(at, [self.layer.symbols, width], block, &|unit: usize, block: &Block, target: &mut [f32]| {
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
