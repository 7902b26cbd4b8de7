//! The units of a batch, each with altered copies (augmentation multiplicity: De et al. 2022, "Unlocking high-accuracy
//! differentially private image classification through scale", section 3).
//!
//! The copies of a unit are examples of that unit. All have as many frames as the unit, so the mean over all frames is the
//! mean over the copies, and the gradient of a unit is clipped after this mean.
//!
//! **Privacy.** The coins of the alterations are drawn without any data. For each outcome of the coins, the copies of a unit
//! depend on that unit alone, its clipped vector has a norm of at most C, and the other units' vectors do not depend on it. So
//! the release has the price of one without copies for each outcome, and on average over them. The coins need not be secret.
//! Each unit has a stream of its own, by its number at the site, so that its copies do not depend on the other members of the
//! batch.
//!
//! Copies are made group by group. Those of a unit that is too long for one pass are made one after another.

use std::ops::Range;

use rand_chacha::ChaCha20Rng;
use undertone_api::job::dp_sgd::UnitAugmentation;

use super::{Engine, Example, FRAMES, PreparedModel, Unit, frames_of};
use crate::clip::ClippedSum;
use crate::model::augmentation::alter_features;
use crate::model::{ModelShape, Normalizer};
use crate::per_unit::PerUnit;
use crate::randomness::Randomness;

/// The alterations of one batch, with their coins.
pub struct BatchAugmentation {
    terms: UnitAugmentation,
    coins: Randomness,
}

impl BatchAugmentation {
    /// Makes the alterations of a batch. Each batch has fresh coins.
    pub const fn new(terms: UnitAugmentation, coins: Randomness) -> Self {
        Self { terms, coins }
    }

    /// Returns K, at least 1.
    fn copies(&self) -> usize {
        (self.terms.copies as usize).max(1)
    }

    /// Returns the coins of a unit.
    fn unit_coins(&self, number: usize) -> ChaCha20Rng {
        self.coins.stream(number as u32)
    }

    /// Makes the features of one more copy of a unit, utterance by utterance.
    fn alter(&self, unit: &[Example<'_>], normalizer: &Normalizer, coins: &mut ChaCha20Rng) -> Vec<Vec<f32>> {
        unit.iter().map(|example| alter_features(example.features, normalizer, &self.terms, coins)).collect()
    }
}

/// The units of a batch, as they are or with altered copies.
pub struct BatchUnits<'b, 'a> {
    units: Vec<Unit<'a>>,
    numbers: &'b [usize],
    augmentation: Option<BatchAugmentation>,
}

impl<'b, 'a> BatchUnits<'b, 'a> {
    /// Makes a batch of units. The first of `numbers` are those of the units at the site; without `augmentation` they have no
    /// effect.
    ///
    /// # Panics
    /// If there are fewer numbers than units.
    pub fn new(units: Vec<Unit<'a>>, numbers: &'b [usize], augmentation: Option<BatchAugmentation>) -> Self {
        assert!(units.len() <= numbers.len(), "each unit has a number");
        Self { units, numbers, augmentation }
    }

    /// Returns the number of units.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Returns whether the batch has no unit.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Returns whether the units have altered copies.
    pub const fn is_augmented(&self) -> bool {
        self.augmentation.is_some()
    }

    /// Splits the batch into groups that share a pass, each unit with all of its copies. The split does not affect the gradient
    /// of a unit.
    pub fn groups(&self, engine: &Engine, shape: &ModelShape) -> Vec<Range<usize>> {
        let copies = self.augmentation.as_ref().map_or(1, BatchAugmentation::copies);
        engine.groups_of_copies(&self.units, copies, shape)
    }

    /// Adds the clipped gradients of the units of one group, as [`Engine::add_clipped`] does: of each unit that of the mean over
    /// its copies.
    ///
    /// # Panics
    /// If there are no such units, a label is not below the model's classes, or the sum has other parts.
    pub fn add_clipped(
        &self,
        group: Range<usize>,
        engine: &mut Engine,
        prepared: &PreparedModel<'_>,
        sum: &mut ClippedSum,
    ) {
        let Some(augmentation) = &self.augmentation else {
            engine.add_clipped(prepared, &self.units[group], sum);
            return;
        };
        if let Some(unit) = self.find_long_unit(&group, augmentation) {
            let mut gradient = vec![0.0; prepared.length];
            self.add_one_by_one(unit, augmentation, engine, prepared, 1.0, &mut gradient);
            let length = gradient.len();
            sum.add(PerUnit::new(gradient, length));
            return;
        }
        let copies = self.copy_group(group.clone(), augmentation, prepared);
        engine.add_clipped(prepared, &join_copies(&self.units[group], &copies), sum);
    }

    /// Adds `weight` times the sum of the gradients of the units of one group, as [`Engine::add_units`] does: of each unit that
    /// of the mean over its copies. The result has no protection: use it for data that are public or disclosed by their owner.
    ///
    /// # Panics
    /// If there are no such units, a label is not below the model's classes, or the length of `gradient` differs from that of
    /// the trained parts.
    pub fn add_exact(
        &self,
        group: Range<usize>,
        engine: &Engine,
        prepared: &PreparedModel<'_>,
        weight: f32,
        gradient: &mut [f32],
    ) {
        let Some(augmentation) = &self.augmentation else {
            engine.add_prepared(prepared, &self.units[group], weight, gradient);
            return;
        };
        if let Some(unit) = self.find_long_unit(&group, augmentation) {
            self.add_one_by_one(unit, augmentation, engine, prepared, weight, gradient);
            return;
        }
        let copies = self.copy_group(group.clone(), augmentation, prepared);
        engine.add_prepared(prepared, &join_copies(&self.units[group], &copies), weight, gradient);
    }

    /// Returns the unit of a group whose copies together are too long for one pass. This depends on the unit alone: such a unit
    /// is a group.
    fn find_long_unit(&self, group: &Range<usize>, augmentation: &BatchAugmentation) -> Option<usize> {
        let unit = group.start;
        let is_long = frames_of(&self.units[unit]).saturating_mul(augmentation.copies()) > FRAMES;
        (group.len() == 1 && is_long).then_some(unit)
    }

    /// Adds `weight` times the mean gradient of the copies of a unit, of which one exists at a time.
    fn add_one_by_one(
        &self,
        unit: usize,
        augmentation: &BatchAugmentation,
        engine: &Engine,
        prepared: &PreparedModel<'_>,
        weight: f32,
        gradient: &mut [f32],
    ) {
        let mut coins = augmentation.unit_coins(self.numbers[unit]);
        let unit = &self.units[unit];
        let weight = weight / augmentation.copies() as f32;
        for _ in 0..augmentation.copies() {
            let features = augmentation.alter(unit, prepared.model.normalizer(), &mut coins);
            engine.add_prepared(prepared, &[join_features(unit, &features)], weight, gradient);
        }
    }

    /// Makes the features of all copies of the units of a group: for each unit those of each copy's utterances, in order.
    fn copy_group(
        &self,
        group: Range<usize>,
        augmentation: &BatchAugmentation,
        prepared: &PreparedModel<'_>,
    ) -> Vec<Vec<Vec<f32>>> {
        let copy = |unit: usize| {
            let mut coins = augmentation.unit_coins(self.numbers[unit]);
            let unit = &self.units[unit];
            let alter = |_| augmentation.alter(unit, prepared.model.normalizer(), &mut coins);
            (0..augmentation.copies()).flat_map(alter).collect()
        };
        group.map(copy).collect()
    }
}

/// Returns units whose examples are all copies of those of `units`.
fn join_copies<'f>(units: &'f [Unit<'_>], copies: &'f [Vec<Vec<f32>>]) -> Vec<Unit<'f>> {
    units.iter().zip(copies).map(|(unit, features)| join_features(unit, features)).collect()
}

/// Returns a unit with these features and the labels of its utterances, which are repeated for each copy.
fn join_features<'f>(unit: &'f [Example<'_>], features: &'f [Vec<f32>]) -> Unit<'f> {
    let labels = unit.iter().map(|example| example.labels).cycle();
    features.iter().zip(labels).map(|(features, labels)| Example { features, labels }).collect()
}
