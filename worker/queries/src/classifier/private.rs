//! The labelled rows of a private log, from which a classifier can learn by DP-SGD alone.
//!
//! [`PrivateUnits`] holds the rows of a log hashed, unit by unit. It is not a [`Visible`](super::Visible) text, so that
//! no other code of the classifier accepts it, and it has two uses: [`Classifier::sum_gradients`], a sum of clipped
//! gradients, and [`Classifier::sum_histograms`], a sum of clipped histograms of scores. Neither can leave without noise
//! and a grant (`undertone_worker_training`).
//!
//! The gradient of a unit is a function of that unit, the classifier and public numbers, bit for bit: each unit has a pass
//! of its own, without dropout. It covers the layers after the embedding; the table stays as it is, because its rows
//! would each need noise. A unit's rows beyond [`MOST_ROWS`] and a text's words beyond [`MOST_WORDS`] are cut, so that
//! the time of a unit has a public bound.
//!
//! This module must never log a text, a number of rows or units, a gradient or a norm.

use std::collections::HashMap;

use rayon::prelude::*;
use undertone_api::job::evaluation::HistogramRelease;
use undertone_privacy::{PrivacyUnit, SamplingRate};
use undertone_worker_training::clip::{Clip, ClipError, ClippedSum};
use undertone_worker_training::device;
use undertone_worker_training::histograms::HistogramSum;
use undertone_worker_training::per_unit::PerUnit;
use undertone_worker_training::randomness::Randomness;
use undertone_worker_training::sampler::{Batch, Sampler};

use super::grams::HashedGrams;
use super::masks::DropoutMasks;
use super::network::NetworkPass;
use super::train::differentiate;
use super::{Classifier, Settings};
use crate::dataset::Row;

/// The most rows of a unit that take part.
pub const MOST_ROWS: usize = 32;
/// The most words of a text that take part.
pub const MOST_WORDS: usize = 64;
/// The most numbers of gradients in memory at once: 64 MiB.
const MOST_NUMBERS: usize = 1 << 24;
/// The most units whose histograms are in memory at once.
const MOST_UNITS: usize = 256;

/// The labelled units of a private log.
pub struct PrivateUnits {
    /// Each labelled row once: its grams and its label.
    rows: Vec<(HashedGrams, u16)>,
    /// The rows of each unit, by their index; a row that occurs several times is as many records.
    units: Vec<Vec<u32>>,
}

impl PrivateUnits {
    /// Reads the labelled rows of a log for classifiers with these settings. `label` returns the job's number of a row's
    /// label; rows without one take no part, and neither do rows without a user where users are protected.
    ///
    /// # Errors
    /// The first error of `rows`.
    pub fn read<E>(
        rows: impl Iterator<Item = Result<Row, E>>,
        label: impl Fn(u16) -> Option<u16>,
        unit: PrivacyUnit,
        settings: &Settings,
    ) -> Result<Self, E> {
        let mut units = Self { rows: Vec::new(), units: Vec::new() };
        let mut users: HashMap<u128, usize> = HashMap::new();
        for row in rows {
            let Row { text, user, count, label: number } = row?;
            let Some(number) = number.and_then(&label) else { continue };
            let index = units.rows.len() as u32;
            let copies = usize::try_from(count).unwrap_or(usize::MAX);
            match (unit, user) {
                (PrivacyUnit::User, None) => continue,
                (PrivacyUnit::User, Some(user)) => {
                    let place = *users.entry(user).or_insert_with(|| {
                        units.units.push(Vec::new());
                        units.units.len() - 1
                    });
                    let own = &mut units.units[place];
                    let room = MOST_ROWS.saturating_sub(own.len());
                    own.extend(std::iter::repeat_n(index, copies.min(room)));
                }
                (PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::Words, _) => {
                    units.units.extend(std::iter::repeat_n(vec![index], copies));
                }
            }
            units.rows.push((hash_words(&text, settings), number));
        }
        Ok(units)
    }

    /// Returns `count` made-up units of the greatest length, to measure how long a batch can take.
    pub fn synthetic(count: usize, unit: PrivacyUnit, settings: &Settings) -> Self {
        let text = "a-made-up-word-of-a-great-length ".repeat(MOST_WORDS);
        let rows = if unit == PrivacyUnit::User { MOST_ROWS } else { 1 };
        Self { rows: vec![(hash_words(&text, settings), 0)], units: vec![vec![0; rows]; count] }
    }

    /// Returns a sampler of the units with a rate.
    pub const fn sampler(&self, rate: SamplingRate) -> Sampler {
        Sampler::new(self.units.len(), rate)
    }
}

/// Hashes the first words of a text.
fn hash_words(text: &str, settings: &Settings) -> HashedGrams {
    let words: Vec<&str> = text.split_whitespace().take(MOST_WORDS).collect();
    HashedGrams::new(&words.join(" "), settings.buckets as usize)
}

impl Classifier {
    /// Returns the sum of the clipped gradients of a batch, over the parameters of the layers after the embedding;
    /// `None` if `watch` returned false between two groups of units.
    pub fn sum_gradients(
        &self,
        private: &PrivateUnits,
        batch: &Batch,
        clip: Clip,
        watch: &dyn Fn() -> bool,
    ) -> Option<ClippedSum> {
        let length = self.weights.dense.len();
        let mut sum = ClippedSum::begin(batch, clip, length);
        let group = (MOST_NUMBERS / length.max(1)).max(1);
        let mut gradients = Vec::new();
        for units in batch.units().chunks(group) {
            if !watch() {
                return None;
            }
            gradients.clear();
            gradients.resize(units.len() * length, 0.0);
            let pairs = gradients.par_chunks_mut(length).zip(units);
            pairs.for_each(|(gradient, unit)| self.differentiate_unit(private, &private.units[*unit], gradient));
            gradients = sum.add(PerUnit::new(gradients, length));
        }
        Some(sum)
    }

    /// Adds the gradient of a unit's cross-entropy, summed over its rows, to `gradient`.
    fn differentiate_unit(&self, private: &PrivateUnits, rows: &[u32], gradient: &mut [f32]) {
        if rows.is_empty() {
            return;
        }
        let device = device::chosen().1;
        let rows: Vec<&(HashedGrams, u16)> = rows.iter().map(|row| &private.rows[*row as usize]).collect();
        let texts: Vec<&HashedGrams> = rows.iter().map(|(grams, _)| grams).collect();
        let masks = DropoutMasks::none();
        let pass = NetworkPass::new(self.shape, &self.weights.dense, &texts, &device);
        let (mut logits, tape) = pass.forward(self.shape.embed(&self.weights.table, &texts), &masks);
        for (logits, (_, label)) in logits.chunks_exact_mut(self.shape.outputs()).zip(&rows) {
            differentiate(logits, *label, 1.0);
        }
        // The derivatives by the embedding are dropped.
        drop(pass.backward(tape, logits, &masks, gradient));
    }

    /// Returns the sum of the clipped score histograms of all units, without dropout. The scores are the logits of the
    /// labels. `None` if `watch` returned false between two groups of units.
    ///
    /// # Errors
    /// [`ClipError`] when the noise is out of range.
    pub fn sum_histograms(
        &self,
        private: &PrivateUnits,
        release: &HistogramRelease,
        randomness: &Randomness,
        watch: &dyn Fn() -> bool,
    ) -> Result<Option<ClippedSum>, ClipError> {
        let mut sum = HistogramSum::begin(release, private.units.len(), randomness)?;
        for units in private.units.chunks(MOST_UNITS) {
            if !watch() {
                return Ok(None);
            }
            let contributions: Vec<Vec<f64>> =
                units.par_iter().map(|rows| self.score_unit(private, rows, &sum)).collect();
            for contribution in &contributions {
                sum.add(contribution);
            }
        }
        Ok(Some(sum.into_sum()))
    }

    /// Returns the contribution of a unit to a sum of histograms: the mean of its rows.
    fn score_unit(&self, private: &PrivateUnits, rows: &[u32], sum: &HistogramSum) -> Vec<f64> {
        let mut contribution = sum.begin_unit();
        if !rows.is_empty() {
            let rows: Vec<&(HashedGrams, u16)> = rows.iter().map(|row| &private.rows[*row as usize]).collect();
            let texts: Vec<&HashedGrams> = rows.iter().map(|(grams, _)| grams).collect();
            let device = device::chosen().1;
            let pass = NetworkPass::new(self.shape, &self.weights.dense, &texts, &device);
            let (logits, _) = pass.forward(self.shape.embed(&self.weights.table, &texts), &DropoutMasks::none());
            let weight = 1.0 / rows.len() as f64;
            for (outputs, (_, label)) in logits.chunks_exact(self.shape.outputs()).zip(&rows) {
                match outputs {
                    // Of two labels the network gives the logit of the second.
                    [logit] => contribution.add_example(&[0.0, *logit], u32::from(*label), weight),
                    outputs => contribution.add_example(outputs, u32::from(*label), weight),
                }
            }
        }
        contribution.into_sums()
    }

    /// Returns the classifier with a change added to the parameters of the layers after the embedding; `None` if the
    /// change has another length, or a number that is not finite.
    pub fn with_change(&self, change: &[f32]) -> Option<Self> {
        if change.len() != self.weights.dense.len() || !change.iter().all(|value| value.is_finite()) {
            return None;
        }
        let mut changed = self.clone();
        changed.weights.dense.iter_mut().zip(change).for_each(|(parameter, change)| *parameter += change);
        Some(changed)
    }

    /// Returns the number of parameters of the layers after the embedding.
    pub const fn dense_length(&self) -> usize {
        self.weights.dense.len()
    }
}

#[cfg(test)]
mod tests;
