//! The mean of the trained vectors of a text's n-grams (Joulin et al. 2017), beside numbers that pass through.
//!
//! A row has `plain` numbers, then the symbols of each of `bags` texts, `symbols_per_bag` each; a negative number stands
//! for no symbol. The output has the plain numbers, then the mean vector of each text, zeros for a text without symbols.
//! One table of vectors serves all texts.
//!
//! The gradient of a unit is zero except at the symbols of that unit. So the backward pass sums it by symbol, and only
//! these rows of the table take part in the norm and in the sum.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::rows::{host, tensor};
use super::{Backward, GradientPiece, GradientRequest, GradientSink, Layer, Layout, MatrixBlock, Parameters};

/// Number of table rows of a block, for a sink that takes blocks alone.
const BLOCK: usize = 16;

/// Dimensions. Parameters are `[symbols, width]` row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingBag {
    /// Numbers of a row that pass through.
    pub plain: usize,
    /// Texts of a row.
    pub bags: usize,
    /// Symbols of a text.
    pub symbols_per_bag: usize,
    /// Number of symbols, at most 2²⁴: an `f32` represents integers up to there exactly.
    pub symbols: usize,
    /// Length of a vector.
    pub width: usize,
}

/// A symbol of a row's text.
#[derive(Debug, Clone, Copy)]
struct BagEntry {
    symbol: usize,
    row: usize,
    bag: usize,
    /// One over the number of the text's symbols.
    weight: f32,
}

impl EmbeddingBag {
    /// Returns the entries of each row, `input` being `[rows, inputs]`. A number beyond the table is its last symbol.
    fn read_entries(&self, input: &[f32]) -> Vec<Vec<BagEntry>> {
        let last = self.symbols - 1;
        let read_row = |(row, values): (usize, &[f32])| {
            let mut entries = Vec::new();
            for (bag, own) in values[self.plain..].chunks_exact(self.symbols_per_bag.max(1)).enumerate() {
                let symbols = || own.iter().filter(|value| **value >= 0.0);
                let weight = 1.0 / symbols().count() as f32;
                entries.extend(symbols().map(|value| BagEntry {
                    symbol: (*value as usize).min(last),
                    row,
                    bag,
                    weight,
                }));
            }
            entries
        };
        input.par_chunks_exact(Layer::inputs(self)).enumerate().map(read_row).collect()
    }

    /// Returns the place of a text's vector in an output row.
    const fn place(&self, bag: usize) -> usize {
        self.plain + bag * self.width
    }
}

impl Layer for EmbeddingBag {
    /// The entries of each row.
    type Tape = BagTape;

    fn inputs(&self) -> usize {
        self.plain + self.bags * self.symbols_per_bag
    }

    fn outputs(&self) -> usize {
        self.place(self.bags)
    }

    fn parameters(&self) -> usize {
        self.symbols * self.width
    }

    fn passes_back(&self) -> bool {
        false
    }

    /// Draws all values uniformly within ±1.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        parameters.fill_with(uniform);
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, _layout: &Layout) -> (Tensor<2>, BagTape) {
        let device = input.device();
        let input = host(input);
        let table = parameters.host();
        let entries = self.read_entries(&input);
        let mut output = vec![0.0; entries.len() * Layer::outputs(self)];
        let rows = output.par_chunks_exact_mut(Layer::outputs(self)).zip(input.par_chunks_exact(Layer::inputs(self)));
        rows.zip(&entries).for_each(|((output, input), entries)| {
            output[..self.plain].copy_from_slice(&input[..self.plain]);
            for entry in entries {
                let vector = &table[entry.symbol * self.width..(entry.symbol + 1) * self.width];
                let target = &mut output[self.place(entry.bag)..self.place(entry.bag + 1)];
                target.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value * entry.weight);
            }
        });
        (tensor(output, [entries.len(), Layer::outputs(self)], &device), BagTape(entries))
    }

    fn backward(
        &self,
        _parameters: &Parameters<'_>,
        tape: BagTape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let pieces = if request.gradient {
            let by_output = host(by_output);
            let sum = |unit: usize| self.sum_unit(&tape.0[layout.unit(unit)], &by_output);
            let units = (0..layout.units()).into_par_iter().map(sum).collect();
            vec![Box::new(BagPiece { layer: *self, units }) as _]
        } else {
            Vec::new()
        };
        Backward { by_input: None, pieces }
    }
}

/// State of a forward pass: the entries of each row.
pub struct BagTape(Vec<Vec<BagEntry>>);

impl EmbeddingBag {
    /// Returns the gradient of a unit by the table, symbol by symbol. The order of the sums depends on the unit alone.
    fn sum_unit(&self, rows: &[Vec<BagEntry>], by_output: &[f32]) -> UnitSum {
        let mut entries: Vec<&BagEntry> = rows.iter().flatten().collect();
        entries.sort_by_key(|entry| entry.symbol);
        let mut sum = UnitSum::default();
        for entry in entries {
            if sum.symbols.last() != Some(&entry.symbol) {
                sum.symbols.push(entry.symbol);
                sum.values.resize(sum.symbols.len() * self.width, 0.0);
            }
            let start = sum.values.len() - self.width;
            let from = entry.row * Layer::outputs(self) + self.place(entry.bag);
            let derivatives = &by_output[from..from + self.width];
            sum.values[start..].iter_mut().zip(derivatives).for_each(|(sum, value)| *sum += value * entry.weight);
        }
        sum
    }
}

/// The gradient of a unit by the rows of its symbols; those of all others are zero.
#[derive(Default)]
struct UnitSum {
    /// Strictly ascending.
    symbols: Vec<usize>,
    /// `[symbols, width]`.
    values: Vec<f32>,
}

/// The gradient of a table of vectors.
struct BagPiece {
    layer: EmbeddingBag,
    units: Vec<UnitSum>,
}

impl BagPiece {
    /// Returns the symbols of a unit with their gradients.
    fn rows(&self, unit: usize) -> impl Iterator<Item = (usize, &[f32])> {
        let UnitSum { symbols, values } = &self.units[unit];
        symbols.iter().copied().zip(values.chunks_exact(self.layer.width))
    }
}

impl GradientPiece for BagPiece {
    fn parameters(&self) -> usize {
        Layer::parameters(&self.layer)
    }

    fn squared_norms(&self, _layout: &Layout) -> Vec<f64> {
        let square = |value: &f32| f64::from(*value) * f64::from(*value);
        self.units.par_iter().map(|unit| unit.values.iter().map(square).sum()).collect()
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn stream(&self, _layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        let width = self.layer.width;
        let is_taken = sink.sparse(at, &|unit: usize, visit: &mut dyn FnMut(usize, &[f32])| {
            self.rows(unit).for_each(|(symbol, values)| visit(symbol * width, values));
        });
        if is_taken {
            return;
        }
        let block = [BLOCK.min(self.layer.symbols), width];
        sink.matrix(at, [self.layer.symbols, width], block, &|unit: usize, block: &MatrixBlock, target: &mut [f32]| {
            let symbols = &self.units[unit].symbols;
            let first = symbols.partition_point(|symbol| *symbol < block.rows.start);
            let end = symbols.partition_point(|symbol| *symbol < block.rows.end);
            if first == end {
                return false;
            }
            target.fill(0.0);
            for (symbol, values) in self.rows(unit).skip(first).take(end - first) {
                let start = (symbol - block.rows.start) * width;
                target[start..start + width].copy_from_slice(values);
            }
            true
        });
    }

    fn add_to(&self, target: &mut [f32]) {
        let width = self.layer.width;
        for (symbol, values) in (0..self.units.len()).flat_map(|unit| self.rows(unit)) {
            let own = &mut target[symbol * width..(symbol + 1) * width];
            own.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
}
