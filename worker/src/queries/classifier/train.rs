//! Learning from examples: Adam on the mean cross-entropy, from a fresh start, the same for the same seed.

use rand_chacha::rand_core::Rng;

use super::adam::{Dense, Sparse};
use super::grams::Grams;
use super::masks::{Masks, Stream};
use super::network::{Pass, Shape, Weights, scatter};
use super::{Classifier, ClassifierError, Example, Settings};
use crate::dp::device;

impl Classifier {
    /// Trains a classifier of some labels on examples, from a fresh start. The learning rate falls linearly to 0 over the steps.
    /// The same seed, settings and examples give the same bits on the same machine, whatever its number of threads.
    ///
    /// # Errors
    /// [`ClassifierError`] when there are no two labels, no examples, one with a label that there is not, or settings that no
    /// classifier has.
    pub fn train(
        settings: &Settings,
        labels: &[String],
        examples: &[Example<'_>],
        seed: u64,
    ) -> Result<Self, ClassifierError> {
        let shape = super::shape(settings, labels.len())?;
        if examples.is_empty() {
            return Err(ClassifierError::NoExamples);
        }
        if let Some(example) = examples.iter().find(|example| usize::from(example.label) >= labels.len()) {
            return Err(ClassifierError::Label { label: example.label, labels: labels.len() });
        }
        let mut start = Stream::Start.of(seed);
        let weights = shape.initialize(&mut || (start.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0);
        let mut learner = Learner::new(settings, shape, weights);
        let grams: Vec<Grams> = examples.iter().map(|example| Grams::new(example.text.text(), shape.buckets)).collect();
        let steps = (f64::from(settings.epochs) * examples.len().div_ceil(settings.batch as usize) as f64) as f32;
        let mut done = 0.0;
        for epoch in 0..settings.epochs {
            let order = shuffled(examples.len(), &mut Stream::Order(epoch).of(seed));
            let mut dropout = Stream::Training(epoch).of(seed);
            for batch in order.chunks(settings.batch as usize) {
                let some: Vec<(&Grams, u16)> =
                    batch.iter().map(|index| (&grams[*index], examples[*index].label)).collect();
                learner.step(&some, 1.0 - done / steps, &mut dropout);
                done += 1.0;
            }
        }
        Ok(Self { settings: *settings, shape, labels: labels.to_vec(), seed, weights: learner.weights })
    }
}

struct Learner<'a> {
    settings: &'a Settings,
    shape: Shape,
    weights: Weights,
    dense: Dense,
    sparse: Sparse,
    gradient: Vec<f32>,
    device: burn::tensor::Device,
}

impl<'a> Learner<'a> {
    fn new(settings: &'a Settings, shape: Shape, weights: Weights) -> Self {
        let count = weights.dense.len();
        Self {
            settings,
            shape,
            weights,
            dense: Dense::new(count),
            sparse: Sparse::new(shape.buckets, shape.embedding),
            gradient: vec![0.0; count],
            device: device::chosen().1,
        }
    }

    fn step(&mut self, batch: &[(&Grams, u16)], part: f32, dropout: &mut impl Rng) {
        let Self { shape, .. } = *self;
        let texts: Vec<&Grams> = batch.iter().map(|(grams, _)| *grams).collect();
        let masks = Masks::draw(self.settings.dropout, shape.widths(), texts.len(), dropout);
        let pass = Pass::new(shape, &self.weights.dense, &texts, &self.device);
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

/// The numbers that came out become the derivatives of `weight` times the cross-entropy by them.
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

/// 0 … count − 1 in an order of chance (Fisher and Yates; a bias of 2⁻⁴⁰ in the order of visible examples harms nobody).
pub(in crate::queries) fn shuffled(count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
    order
}
