//! Training on examples: Adam on the mean cross-entropy, from fresh parameters, the same for the same seed.

use rand_chacha::rand_core::Rng;

use super::adam::{DenseAdam, SparseAdam};
use super::grams::HashedGrams;
use super::masks::{DropoutMasks, SeedStream};
use super::network::{NetworkPass, NetworkShape, NetworkWeights, scatter};
use super::{Classifier, ClassifierError, Example, Settings};
use undertone_worker_training::device;

impl Classifier {
    /// Returns a classifier of `labels` with fresh parameters, which has learned nothing.
    ///
    /// # Errors
    /// [`ClassifierError`] when there are fewer than two labels, or settings that no classifier has.
    pub fn begin(settings: &Settings, labels: &[String], seed: u64) -> Result<Self, ClassifierError> {
        let shape = super::shape(settings, labels.len())?;
        let mut start = SeedStream::Start.rng(seed);
        let weights = shape.initialize(&mut || (start.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0);
        Ok(Self { settings: *settings, shape, labels: labels.to_vec(), seed, weights })
    }

    /// Trains a classifier of `labels` on examples, from fresh parameters. The learning rate falls linearly to 0 over
    /// the steps. The same seed, settings and examples give the same bits on the same machine, whatever its number of
    /// threads.
    ///
    /// # Errors
    /// [`ClassifierError`] when there are fewer than two labels, no examples, an example whose label does not exist, or
    /// settings that no classifier has.
    pub fn train(
        settings: &Settings,
        labels: &[String],
        examples: &[Example<'_>],
        seed: u64,
    ) -> Result<Self, ClassifierError> {
        let Self { shape, weights, .. } = Self::begin(settings, labels, seed)?;
        if examples.is_empty() {
            return Err(ClassifierError::NoExamples);
        }
        if let Some(example) = examples.iter().find(|example| usize::from(example.label) >= labels.len()) {
            return Err(ClassifierError::Label { label: example.label, labels: labels.len() });
        }
        let mut learner = AdamTrainer::new(settings, shape, weights);
        let grams: Vec<HashedGrams> =
            examples.iter().map(|example| HashedGrams::new(example.text.text(), shape.buckets)).collect();
        let steps = (f64::from(settings.epochs) * examples.len().div_ceil(settings.batch as usize) as f64) as f32;
        let mut steps_taken = 0.0;
        for epoch in 0..settings.epochs {
            let order = shuffled(examples.len(), &mut SeedStream::Order(epoch).rng(seed));
            let mut dropout = SeedStream::Training(epoch).rng(seed);
            for batch in order.chunks(settings.batch as usize) {
                let some: Vec<(&HashedGrams, u16)> =
                    batch.iter().map(|index| (&grams[*index], examples[*index].label)).collect();
                learner.step(&some, 1.0 - steps_taken / steps, &mut dropout);
                steps_taken += 1.0;
            }
        }
        Ok(Self { settings: *settings, shape, labels: labels.to_vec(), seed, weights: learner.weights })
    }
}

struct AdamTrainer<'a> {
    settings: &'a Settings,
    shape: NetworkShape,
    weights: NetworkWeights,
    dense: DenseAdam,
    sparse: SparseAdam,
    gradient: Vec<f32>,
    device: burn::tensor::Device,
}

impl<'a> AdamTrainer<'a> {
    fn new(settings: &'a Settings, shape: NetworkShape, weights: NetworkWeights) -> Self {
        let count = weights.dense.len();
        Self {
            settings,
            shape,
            weights,
            dense: DenseAdam::new(count),
            sparse: SparseAdam::new(shape.buckets, shape.embedding),
            gradient: vec![0.0; count],
            device: device::chosen().1,
        }
    }

    fn step(&mut self, batch: &[(&HashedGrams, u16)], part: f32, dropout: &mut impl Rng) {
        let Self { shape, .. } = *self;
        let texts: Vec<&HashedGrams> = batch.iter().map(|(grams, _)| *grams).collect();
        let masks = DropoutMasks::draw(self.settings.dropout, shape.widths(), texts.len(), dropout);
        let pass = NetworkPass::new(shape, &self.weights.dense, &texts, &self.device);
        let (mut logits, tape) = pass.forward(shape.embed(&self.weights.table, &texts), &masks);
        let weight = 1.0 / texts.len() as f32;
        for (row, (_, label)) in logits.chunks_exact_mut(shape.outputs()).zip(batch) {
            differentiate(row, *label, weight);
        }
        self.gradient.fill(0.0);
        let by_rows = pass.backward(tape, logits, &masks, &mut self.gradient);
        scatter(shape, &texts, &by_rows, &mut |row, by, scale| self.sparse.add(row, by, scale));
        let rate = self.settings.learning_rate as f32 * part;
        self.dense.step(&mut self.weights.dense, &self.gradient, rate);
        self.sparse.step(&mut self.weights.table, rate);
    }
}

/// Replaces the outputs with the derivatives of `weight` times the cross-entropy by them.
pub(super) fn differentiate(logits: &mut [f32], label: u16, weight: f32) {
    if let [logit] = logits {
        *logit = weight * (1.0 / (1.0 + (-*logit).exp()) - f32::from(label));
        return;
    }
    super::posterior::softmax(logits);
    logits[usize::from(label)] -= 1.0;
    for value in logits {
        *value *= weight;
    }
}

/// Returns 0 … count − 1 in random order (Fisher and Yates). The bias of 2⁻⁴⁰ is harmless, because the examples are
/// visible.
pub(crate) fn shuffled(count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
    order
}
