//! Predictions for texts with measures of uncertainty: the mean of several passes, each with other units dropped.
//!
//! p_t is the prediction of pass t of T, and p its mean over the passes. All measures grow with uncertainty, and range
//! from 0 to 1 for any number of labels C:
//!
//! | measure | formula | source |
//! |---|---|---|
//! | entropy | −Σ p ln p / ln C | Shannon; Lewis and Gale 1994 |
//! | least confidence | 1 − max p | Culotta and McCallum 2005 |
//! | margin | 1 − (p₁ − p₂), the two greatest | Scheffer et al. 2001 |
//! | disagreement (BALD) | (−Σ p ln p − mean over t of −Σ p_t ln p_t) / ln C | Houlsby et al. 2011; Gal et al. 2017 |

use rayon::prelude::*;

use super::grams::HashedGrams;
use super::masks::{DropoutMasks, SeedStream};
use super::network::NetworkPass;
use super::{Classifier, Example, Visible};
use undertone_worker_training::device;

/// Texts in one pass.
const TEXTS: usize = 512;

/// The prediction for a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelPosterior {
    /// The most probable label; of several, the first.
    pub label: u16,
    /// Its probability.
    pub confidence: f32,
    /// The mean's entropy over ln C: 0 to 1.
    pub entropy: f32,
    /// 1 less the lead of the first label over the second: 0 to 1.
    pub margin: f32,
    /// Disagreement of the passes, over ln C: 0 to 1.
    pub disagreement: f32,
}

/// The most probable label of a text of the site. It is as private as the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalLabel {
    /// The most probable label, an index into the classifier's labels; of several, the first.
    pub label: u16,
    /// Its probability.
    pub probability: f32,
}

/// Result on labelled texts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ExamResult {
    /// Examples, by weight.
    pub examples: u64,
    /// Correct examples, by weight.
    pub right: u64,
    /// Sum of cross-entropies in nats.
    pub loss: f64,
}

impl ExamResult {
    /// Returns the share of examples classified correctly: 0 to 1; 0 without examples.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.examples.max(1) as f64
    }

    /// Returns the mean cross-entropy in nats; 0 without examples.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.examples.max(1) as f64
    }
}

impl Classifier {
    /// Returns the posterior of each text. Neither the order of the texts nor the other texts change a bit of it.
    pub fn posteriors(&self, texts: &[Visible<'_>]) -> Vec<LabelPosterior> {
        let labels = self.shape.labels;
        let most = (labels as f32).ln();
        let mut posteriors = Vec::with_capacity(texts.len());
        self.mean(texts, &mut |mean, entropy| {
            let (label, confidence, second) = lead(mean);
            let entropy_of_mean = self::entropy(mean);
            posteriors.push(LabelPosterior {
                label,
                confidence,
                entropy: (entropy_of_mean / most).clamp(0.0, 1.0),
                margin: 1.0 - (confidence - second),
                disagreement: ((entropy_of_mean - entropy) / most).clamp(0.0, 1.0),
            });
        });
        posteriors
    }

    /// Returns the mean prediction for texts, `[texts, labels]` row-major.
    pub fn predict(&self, texts: &[Visible<'_>]) -> Vec<f32> {
        let mut all = Vec::with_capacity(texts.len() * self.shape.labels);
        self.mean(texts, &mut |mean, _| all.extend_from_slice(mean));
        all
    }

    /// Returns the most probable label of each text, for the site's own use: the labels are as private as the texts, and
    /// nothing of them may leave the site.
    pub fn classify_local(&self, texts: &[&str]) -> Vec<LocalLabel> {
        let mut labels = Vec::with_capacity(texts.len());
        self.mean_of(texts, &mut |mean, _| {
            let (label, probability, _) = lead(mean);
            labels.push(LocalLabel { label, probability });
        });
        labels
    }

    /// Compares mean predictions with labels. Each example counts with its weight, so that a text that occurs many
    /// times is classified once.
    ///
    /// # Panics
    /// If a label is not one of the classifier's.
    pub fn examine(&self, examples: &[(Example<'_>, u64)]) -> ExamResult {
        let texts: Vec<Visible<'_>> = examples.iter().map(|(example, _)| example.text).collect();
        let mut exam = ExamResult::default();
        let mut next = examples.iter();
        self.mean(&texts, &mut |mean, _| {
            let Some((example, weight)) = next.next() else { return };
            exam.examples += weight;
            exam.right += if lead(mean).0 == example.label { *weight } else { 0 };
            let probability = f64::from(mean[usize::from(example.label)]).max(f64::from(f32::MIN_POSITIVE));
            exam.loss -= *weight as f64 * probability.ln();
        });
        exam
    }

    /// Returns the hidden layer without dropout, scaled to length 1, `[texts, hidden]` row-major: the classifier places
    /// similar texts near each other. A text with a zero hidden layer lies at 0.
    pub fn places(&self, texts: &[Visible<'_>]) -> Vec<f32> {
        let device = device::chosen().1;
        let shape = self.shape;
        let mut all = Vec::with_capacity(texts.len() * shape.hidden);
        for some in texts.chunks(TEXTS) {
            let some: Vec<&str> = some.iter().map(|text| text.text()).collect();
            let grams = self.grams(&some);
            let grams: Vec<&HashedGrams> = grams.iter().collect();
            let pass = NetworkPass::new(shape, &self.weights.dense, &grams, &device);
            let mut rows = pass.place(shape.embed(&self.weights.table, &grams));
            for row in rows.chunks_exact_mut(shape.hidden) {
                let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
                if length > 0.0 {
                    for value in row {
                        *value /= length;
                    }
                }
            }
            all.extend(rows);
        }
        all
    }

    fn grams(&self, texts: &[&str]) -> Vec<HashedGrams> {
        texts.par_iter().map(|text| HashedGrams::new(text, self.shape.buckets)).collect()
    }

    /// Calls `give` for each text in order, with the mean of the passes' predictions and the mean of their entropies in
    /// nats.
    fn mean(&self, texts: &[Visible<'_>], give: &mut dyn FnMut(&[f32], f32)) {
        let texts: Vec<&str> = texts.iter().map(|text| text.text()).collect();
        self.mean_of(&texts, give);
    }

    fn mean_of(&self, texts: &[&str], give: &mut dyn FnMut(&[f32], f32)) {
        let device = device::chosen().1;
        let shape = self.shape;
        // Without dropout all passes are equal.
        let passes = if self.settings.dropout > 0.0 { self.settings.passes } else { 1 };
        let masks: Vec<DropoutMasks> = (0..passes)
            .map(|pass| {
                DropoutMasks::draw(self.settings.dropout, shape.widths(), 1, &mut SeedStream::Pass(pass).rng(self.seed))
            })
            .collect();
        let part = 1.0 / passes as f32;
        for some in texts.chunks(TEXTS) {
            let grams = self.grams(some);
            let grams: Vec<&HashedGrams> = grams.iter().collect();
            let pass = NetworkPass::new(shape, &self.weights.dense, &grams, &device);
            let embedded = shape.embed(&self.weights.table, &grams);
            let mut means = vec![0.0; some.len() * shape.labels];
            let mut entropies = vec![0.0; some.len()];
            for masks in &masks {
                let (logits, _) = pass.forward(embedded.clone(), masks);
                let rows = means.par_chunks_mut(shape.labels).zip(&mut entropies);
                let rows = rows.zip(logits.par_chunks(shape.outputs())).with_min_len(64);
                rows.for_each_init(
                    || vec![0.0; shape.labels],
                    |one, ((mean, total), logits)| {
                        probabilities(logits, one);
                        mean.iter_mut().zip(&*one).for_each(|(sum, p)| *sum += part * p);
                        *total += part * entropy(one);
                    },
                );
            }
            means.chunks_exact(shape.labels).zip(entropies).for_each(|(mean, entropy)| give(mean, entropy));
        }
    }
}

/// Converts the network's outputs to the probability of each label.
fn probabilities(logits: &[f32], into: &mut [f32]) {
    if let ([logit], [first, second]) = (logits, &mut *into) {
        *second = 1.0 / (1.0 + (-*logit).exp());
        *first = 1.0 / (1.0 + logit.exp());
        return;
    }
    into.copy_from_slice(logits);
    softmax(into);
}

/// Replaces each value with its exponential over the sum of all exponentials.
pub(super) fn softmax(values: &mut [f32]) {
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for value in &mut *values {
        *value = (*value - most).exp();
        sum += *value;
    }
    for value in values {
        *value /= sum;
    }
}

/// Returns −Σ p ln p, in nats.
fn entropy(probabilities: &[f32]) -> f32 {
    probabilities.iter().map(|p| if *p > 0.0 { -p * p.ln() } else { 0.0 }).sum()
}

/// Returns the most probable label, of several the first; its probability; and the next highest probability.
fn lead(probabilities: &[f32]) -> (u16, f32, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    let mut second = f32::NEG_INFINITY;
    for (label, p) in probabilities.iter().enumerate() {
        if *p > best.1 {
            second = best.1;
            best = (label, *p);
        } else if *p > second {
            second = *p;
        }
    }
    (best.0 as u16, best.1, second)
}

#[cfg(test)]
mod tests;
