//! The network: rows of a table → sums of a text or of its words → a layer → one number for each label.
//!
//! | encoder | from a text to the hidden layer `[hidden]` |
//! |---|---|
//! | bag | e = Σ rows of the text / √(their number); ReLU(e W₁ + b₁) |
//! | LSTM | e_t = Σ rows of word t / √(their number); the last output of an LSTM over e₁ … e_T |
//!
//! Dropout acts on e and on the hidden layer. The output is linear: a number for each label, or, for two labels, one
//! number whose logistic function is the probability of the second.
//!
//! The layers are the worker's own over burn's tensors ([`undertone_worker_training::layers`]), on the site's
//! configured device. Their derivatives are written by hand, and a test compares them with burn's automatic
//! differentiation. The table is sparse: a pass reads and a step writes only rows that occur, which no dense layer can.
//! A row of a matrix product does not depend on the other rows, so the result for a text has the same bits in every
//! batch.

use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;
use undertone_api::job::active_learning::Encoder;

use super::grams::HashedGrams;
use super::masks::DropoutMasks;
use undertone_worker_training::layers::affine::Linear;
use undertone_worker_training::layers::recurrent::lstm::{Lstm, Tape as LstmTape};
use undertone_worker_training::layers::{Backward, GradientRequest, Layer, Layout, Parameters};

/// Dimensions of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NetworkShape {
    pub(super) encoder: Encoder,
    pub(super) buckets: usize,
    pub(super) embedding: usize,
    pub(super) hidden: usize,
    pub(super) labels: usize,
}

/// All learned parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NetworkWeights {
    /// `[buckets, embedding]`.
    pub(super) table: Vec<f32>,
    /// The layer's parameters, then the output's.
    pub(super) dense: Vec<f32>,
}

impl NetworkShape {
    /// Returns the number of outputs: one for two labels.
    pub(super) const fn outputs(&self) -> usize {
        if self.labels == 2 { 1 } else { self.labels }
    }

    /// Returns the widths of the layers with masks.
    pub(super) const fn widths(&self) -> [usize; 2] {
        [self.embedding, self.hidden]
    }

    const fn bag(&self) -> Linear {
        Linear { inputs: self.embedding, outputs: self.hidden }
    }

    const fn lstm(&self) -> Lstm {
        Lstm { inputs: self.embedding, hidden: self.hidden }
    }

    const fn output(&self) -> Linear {
        Linear { inputs: self.hidden, outputs: self.outputs() }
    }

    /// Returns the rows and columns of the layer's parameters and of the output's.
    pub(super) const fn matrices(&self) -> [[usize; 2]; 2] {
        let layer = match self.encoder {
            Encoder::Bag => [self.embedding + 1, self.hidden],
            Encoder::Lstm => [self.embedding + 1 + self.hidden, 4 * self.hidden],
        };
        [layer, [self.hidden + 1, self.outputs()]]
    }

    /// Returns the index where the output's parameters begin.
    pub(super) const fn split(&self) -> usize {
        let [[rows, columns], _] = self.matrices();
        rows * columns
    }

    /// Returns the number of parameters of both dense layers.
    pub(super) const fn dense(&self) -> usize {
        let [_, [rows, columns]] = self.matrices();
        self.split() + rows * columns
    }

    /// Draws initial weights: small table rows, and each layer's own initialization.
    pub(super) fn initialize(&self, uniform: &mut dyn FnMut() -> f32) -> NetworkWeights {
        let mut weights =
            NetworkWeights { table: vec![0.0; self.buckets * self.embedding], dense: vec![0.0; self.dense()] };
        let reach = 1.0 / (self.embedding as f32).sqrt();
        weights.table.fill_with(|| uniform() * reach);
        let (layer, output) = weights.dense.split_at_mut(self.split());
        match self.encoder {
            Encoder::Bag => self.bag().initialize(layer, uniform),
            Encoder::Lstm => self.lstm().initialize(layer, uniform),
        }
        self.output().initialize(output, uniform);
        weights
    }

    /// Returns the number of rows that a text feeds to the layer.
    fn fed_rows(&self, grams: &HashedGrams) -> usize {
        match self.encoder {
            Encoder::Bag => 1,
            Encoder::Lstm => grams.words(),
        }
    }

    /// Sums the table's rows for each row that is fed, `[rows fed_rows, embedding]`, without masks.
    pub(super) fn embed(&self, table: &[f32], texts: &[&HashedGrams]) -> Vec<f32> {
        let sum = |rows: &[u32], target: &mut [f32]| {
            for row in rows {
                let source = &table[*row as usize * self.embedding..][..self.embedding];
                target.iter_mut().zip(source).for_each(|(sum, value)| *sum += value);
            }
            let scale = scale(rows);
            for sum in target {
                *sum *= scale;
            }
        };
        let mut sums = vec![0.0; texts.iter().map(|grams| self.fed_rows(grams)).sum::<usize>() * self.embedding];
        let mut parts = Vec::with_capacity(texts.len());
        let mut rest = sums.as_mut_slice();
        for grams in texts {
            let (own, after) = rest.split_at_mut(self.fed_rows(grams) * self.embedding);
            parts.push((*grams, own));
            rest = after;
        }
        parts.into_par_iter().with_min_len(64).for_each(|(grams, own)| match self.encoder {
            Encoder::Bag => sum(grams.rows(), own),
            Encoder::Lstm => {
                grams.of_words().zip(own.chunks_exact_mut(self.embedding)).for_each(|(rows, own)| sum(rows, own));
            }
        });
        sums
    }
}

/// Returns the scale of a sum of rows, so that a long text has no greater norm than a short one.
fn scale(rows: &[u32]) -> f32 {
    1.0 / (rows.len().max(1) as f32).sqrt()
}

enum LayerTape {
    Bag(Tensor<2>),
    Lstm(LstmTape),
}

/// Intermediate values of a forward pass that the backward pass needs.
pub(super) struct PassTape {
    layer: LayerTape,
    output: Tensor<2>,
    /// The hidden layer before its mask, `[texts, hidden]`.
    hidden: Vec<f32>,
}

/// One pass over a batch of texts.
pub(super) struct NetworkPass<'a> {
    shape: NetworkShape,
    layout: Layout,
    layer: Parameters<'a>,
    output: Parameters<'a>,
    /// For each row that is fed, its text.
    owners: Vec<u32>,
    device: &'a Device,
}

impl<'a> NetworkPass<'a> {
    /// Prepares a pass of `texts` through dense weights, on a device.
    pub(super) fn new(shape: NetworkShape, dense: &'a [f32], texts: &[&HashedGrams], device: &'a Device) -> Self {
        let layout = Layout::new(texts.iter().map(|grams| [shape.fed_rows(grams)]));
        let owners =
            texts.iter().zip(0_u32..).flat_map(|(grams, text)| std::iter::repeat_n(text, shape.fed_rows(grams)));
        let owners = owners.collect();
        let parameters = Parameters::load(dense, device);
        let layer = parameters.part(0..shape.split());
        let output = parameters.part(shape.split()..dense.len());
        Self { shape, layout, layer, output, owners, device }
    }

    fn mask(&self, masks: &DropoutMasks, rows: &mut [f32]) {
        let rows = rows.chunks_exact_mut(self.shape.embedding).zip(&self.owners);
        rows.for_each(|(row, text)| masks.apply(0, *text as usize, row));
    }

    /// Iterates over the index of each text's last row.
    fn last(&self) -> impl Iterator<Item = usize> {
        self.layout.sequences().map(|rows| rows.end - 1)
    }

    /// Computes the hidden layer before its mask, `[texts, hidden]`, from the sums of rows (without masks).
    fn encode(&self, mut embedded: Vec<f32>, masks: &DropoutMasks) -> (Vec<f32>, LayerTape) {
        self.mask(masks, &mut embedded);
        let input = tensor(embedded, [self.layout.rows(), self.shape.embedding], self.device);
        match self.shape.encoder {
            Encoder::Bag => {
                let (output, tape) = self.shape.bag().forward(&self.layer, input, &self.layout);
                let mut hidden = host(output);
                for value in &mut hidden {
                    *value = value.max(0.0);
                }
                (hidden, LayerTape::Bag(tape))
            }
            Encoder::Lstm => {
                let (output, tape) = self.shape.lstm().forward(&self.layer, input, &self.layout);
                let rows = host(output);
                let width = self.shape.hidden;
                let hidden = self.last().flat_map(|row| &rows[row * width..(row + 1) * width]).copied().collect();
                (hidden, LayerTape::Lstm(tape))
            }
        }
    }

    /// Returns the hidden layer without dropout, as coordinates for comparing texts.
    pub(super) fn place(&self, embedded: Vec<f32>) -> Vec<f32> {
        self.encode(embedded, &DropoutMasks::none()).0
    }

    /// Returns the outputs, `[texts, outputs]`, and the tape of the backward pass.
    pub(super) fn forward(&self, embedded: Vec<f32>, masks: &DropoutMasks) -> (Vec<f32>, PassTape) {
        let (hidden, layer) = self.encode(embedded, masks);
        let width = self.shape.hidden;
        let mut masked = hidden.clone();
        masked.chunks_exact_mut(width).enumerate().for_each(|(text, row)| masks.apply(1, text, row));
        let texts = Layout::new((0..masked.len() / width).map(|_| [1]));
        let input = tensor(masked, [texts.rows(), width], self.device);
        let (logits, output) = self.shape.output().forward(&self.output, input, &texts);
        (host(logits), PassTape { layer, output, hidden })
    }

    /// Adds the dense gradient to `gradient`, given the derivatives by the outputs, `[texts, outputs]`. Returns the
    /// derivatives by the sums of rows, `[rows fed_rows, embedding]`.
    pub(super) fn backward(
        &self,
        tape: PassTape,
        by_logits: Vec<f32>,
        masks: &DropoutMasks,
        gradient: &mut [f32],
    ) -> Vec<f32> {
        let NetworkShape { hidden: width, .. } = self.shape;
        let texts = Layout::new((0..tape.hidden.len() / width).map(|_| [1]));
        let by_logits = tensor(by_logits, [texts.rows(), self.shape.outputs()], self.device);
        let (layer, output) = gradient.split_at_mut(self.shape.split());
        let back = self.shape.output().backward(&self.output, tape.output, by_logits, &texts, GradientRequest::ALL);
        let mut by_hidden = take_gradient(back, output);
        by_hidden.chunks_exact_mut(width).enumerate().for_each(|(text, row)| masks.apply(1, text, row));
        let by_output = match &tape.layer {
            LayerTape::Bag(_) => {
                let pairs = by_hidden.iter_mut().zip(&tape.hidden);
                pairs.for_each(|(by, value)| *by = if *value > 0.0 { *by } else { 0.0 });
                by_hidden
            }
            LayerTape::Lstm(_) => {
                let mut rows = vec![0.0; self.layout.rows() * width];
                for (row, by) in self.last().zip(by_hidden.chunks_exact(width)) {
                    rows[row * width..(row + 1) * width].copy_from_slice(by);
                }
                rows
            }
        };
        let by_output = tensor(by_output, [self.layout.rows(), width], self.device);
        let back = match tape.layer {
            LayerTape::Bag(tape) => {
                self.shape.bag().backward(&self.layer, tape, by_output, &self.layout, GradientRequest::ALL)
            }
            LayerTape::Lstm(tape) => {
                self.shape.lstm().backward(&self.layer, tape, by_output, &self.layout, GradientRequest::ALL)
            }
        };
        let mut by_rows = take_gradient(back, layer);
        self.mask(masks, &mut by_rows);
        by_rows
    }
}

/// Adds the pieces of a gradient to their places. Returns the derivatives by the input.
fn take_gradient(back: Backward, gradient: &mut [f32]) -> Vec<f32> {
    let mut rest = gradient;
    for piece in &back.pieces {
        let (own, after) = rest.split_at_mut(piece.parameters());
        piece.add_to(own);
        rest = after;
    }
    back.by_input.map(host).expect("dense layers pass derivatives on")
}

/// Distributes the derivatives by the sums to the table's rows: calls `add` with each row that occurs, its derivatives
/// and their factor, in the order of texts.
pub(super) fn scatter(
    shape: NetworkShape,
    texts: &[&HashedGrams],
    by_rows: &[f32],
    add: &mut dyn FnMut(u32, &[f32], f32),
) {
    let mut sums = by_rows.chunks_exact(shape.embedding);
    let mut give = |rows: &[u32]| {
        if let Some(by) = sums.next() {
            for row in rows {
                add(*row, by, scale(rows));
            }
        }
    };
    for grams in texts {
        match shape.encoder {
            Encoder::Bag => give(grams.rows()),
            Encoder::Lstm => grams.of_words().for_each(&mut give),
        }
    }
}

fn tensor(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn host(rows: Tensor<2>) -> Vec<f32> {
    rows.into_data().try_into_vec::<f32>().expect("layers compute in f32")
}

#[cfg(test)]
mod tests;
