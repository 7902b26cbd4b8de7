//! This participant's contribution: its data, its units, its terms.

use undertone_api::job::dp_sgd::{Arm, Clipping, Noise, Party, SelectionCandidate, Spec};
use undertone_privacy::SamplingRate;

use super::correlated::banded_terms;
use super::data::TrainingData;
use super::development::{self, DevelopmentData};
use super::error::TrainingError;
use super::turns::UnitTurns;
use crate::dp::clip::{Clip, ClipMode};
use crate::dp::randomness::Randomness;
use crate::dp::sampler::{Batch, Sampler};
use crate::run::{Averaging, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Example, Unit};

/// A participant's kind of contribution to an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ContributionMode {
    /// Exact mean gradients, if the site allows.
    Exact,
    /// Clipped and with noise.
    Noisy(Clip),
    /// No contribution.
    None,
}

/// One participant's state.
pub(super) struct TrainingSite {
    data: TrainingData,
    units: Vec<Vec<usize>>,
    party: Party,
    clip: Option<Clip>,
    /// n of the manifest.
    size: u64,
    /// Whether the manifest charges it: then only noisy or opened gradients leave.
    charged: bool,
    /// Utterances of the lead that are excluded from training, ascending.
    set_aside: Vec<usize>,
    /// Public length in frames to which its units are cut; `None` for public data.
    longest: Option<usize>,
    /// Its private selection, once the development data are known.
    selection: Option<SiteSelection>,
    /// The groups of its units and the probability of a unit at its turn; `None` for independent noise.
    turns: Option<(UnitTurns, SamplingRate)>,
}

/// A private selection at a site.
pub(super) struct SiteSelection {
    /// The candidates.
    pub(super) candidates: Vec<SelectionCandidate>,
    /// The data that score them.
    pub(super) development: DevelopmentData,
}

impl TrainingSite {
    /// Opens the participant's dataset and checks it against the spec.
    ///
    /// # Errors
    /// [`RunError::Failed`] with a text for the site's operators.
    pub(super) fn open(spec: &Spec, exchange: &dyn Averaging) -> Result<Self, RunError> {
        let own = exchange.participant();
        let name = || own.dataset_name.clone();
        let party = spec.party(own.dataset).copied().ok_or_else(|| TrainingError::NotParticipant(name()))?;
        let clip = |noise: Noise| {
            let Noise { clip: bound, noise_multiplier, clipping, banded: _ } = noise;
            let clip = match spec.masks() {
                // The grid of the group, and this site's share of the group's noise.
                Some(masks) => {
                    let deviation = masks.site_deviation(noise_multiplier);
                    Clip::on_grid(bound, noise_multiplier, masks.clip_steps, deviation)
                }
                None => Clip::new(bound, noise_multiplier),
            };
            clip.map(|clip| clip.with_mode(clip_mode(clipping)))
        };
        let clip = party.noise.map(clip).transpose();
        let clip = clip.map_err(|source| TrainingError::Noise { dataset: name(), source })?;
        if own.units == 0 {
            return Err(TrainingError::NoUnits(name()).into());
        }
        let charged = own.charge.is_some();
        // A rehearsal charges nothing, and the units of its noisy parties have the rows of charged ones.
        let is_bounded = charged || party.noise.is_some();
        let most_rows = spec.model.rows.as_ref().filter(|_| is_bounded).map(|rows| rows.rows_per_unit as usize);
        let data = TrainingData::open(spec, &exchange.dataset(own.dataset)?, most_rows.unwrap_or(usize::MAX))?;
        let mut units = data.units(spec.unit, charged)?;
        let is_lead = spec.participants.first().is_some_and(|first| first.dataset == party.dataset);
        let set_aside = if is_lead { development::set_aside(spec, &data)? } else { Vec::new() };
        if !set_aside.is_empty() {
            for unit in &mut units {
                unit.retain(|utterance| set_aside.binary_search(utterance).is_err());
            }
            units.retain(|unit| !unit.is_empty());
        }
        if units.is_empty() {
            return Err(match &data {
                TrainingData::Speech(_) => TrainingError::AllHeldOut(name()),
                TrainingData::Rows(_) => TrainingError::NoTargets(name()),
            }
            .into());
        }
        let size = own.units;
        let longest = most_rows.or_else(|| exchange.longest_unit(spec.unit)).filter(|_| charged);
        let turns = banded_terms(spec, &party).map(|(bands, _)| {
            let ids = units.iter().map(|unit| data.unit_id(spec.unit, unit));
            let groups = UnitTurns::assign(exchange.manifest().job, party.dataset, ids, bands);
            // The check of the spec refuses more groups than 1/q.
            (groups, party.sampling_rate.for_turns(bands).unwrap_or(SamplingRate::ONE))
        });
        let site = Self { data, units, party, clip, size, charged, set_aside, longest, selection: None, turns };
        site.warn_of_long_units();
        Ok(site)
    }

    /// Returns whether it is the first participant.
    pub(super) fn leads(&self, spec: &Spec) -> bool {
        spec.participants.first().is_some_and(|first| first.dataset == self.party.dataset)
    }

    /// Returns the data that the lead publishes so that others can score their runs; `None` without a selection.
    pub(super) fn development(&self, spec: &Spec) -> Option<DevelopmentData> {
        spec.selection.as_ref().map(|_| DevelopmentData::copy_from(&self.data, &self.set_aside))
    }

    /// Returns whether each of its vectors of the private arm is the best of several runs: if it is charged, and the
    /// spec has a selection. Public data need no protection, and take the arm's own steps.
    pub(super) const fn selects(&self, spec: &Spec) -> bool {
        spec.selection.is_some() && self.charged && self.clip.is_some()
    }

    /// Sets the data that score its runs.
    pub(super) fn set_selection(&mut self, spec: &Spec, development: DevelopmentData) {
        let candidates = spec.selection.iter().flat_map(|selection| selection.candidates.clone()).collect();
        self.selection = Some(SiteSelection { candidates, development });
    }

    /// Returns its private selection.
    pub(super) const fn selection(&self) -> Option<&SiteSelection> {
        self.selection.as_ref()
    }

    /// Returns the utterances for training.
    pub(super) fn training_utterances(&self) -> Vec<usize> {
        let utterances = self.data.training().into_iter();
        utterances.filter(|utterance| self.set_aside.binary_search(utterance).is_err()).collect()
    }

    /// Returns its data.
    pub(super) const fn data(&self) -> &TrainingData {
        &self.data
    }

    /// Returns its contribution to an arm.
    pub(super) const fn mode(&self, arm: Arm) -> ContributionMode {
        match (arm, self.clip) {
            (Arm::Private, Some(clip)) => ContributionMode::Noisy(clip),
            (Arm::Private, None) if self.charged => ContributionMode::None,
            (Arm::Open | Arm::Private, _) => ContributionMode::Exact,
            (Arm::Public, _) => ContributionMode::None,
        }
    }

    /// Returns its contribution to a round of an arm: none after the last private round that its terms name. It follows
    /// the later rounds without sending anything.
    pub(super) fn mode_in_round(&self, arm: Arm, round: u32) -> ContributionMode {
        let is_over = arm == Arm::Private && self.party.rounds.is_some_and(|last| round > last);
        if is_over { ContributionMode::None } else { self.mode(arm) }
    }

    /// Returns the sampler of its units, by its sampling rate, and of `canaries` canaries, numbered after the units.
    pub(super) const fn sampler(&self, canaries: usize) -> Sampler {
        Sampler::new(self.units.len() + canaries, self.party.sampling_rate)
    }

    /// Draws a noisy round's batch: among the units whose turn it is with correlated noise, else among all of them and of
    /// `canaries` canaries.
    pub(super) fn draw_batch(&self, round: u32, canaries: usize, randomness: &Randomness) -> Batch {
        match &self.turns {
            // The contract allows no audit here.
            Some((turns, rate)) => Sampler::new(self.units.len(), *rate).draw_among(turns.members(round), randomness),
            None => self.sampler(canaries).draw(randomness),
        }
    }

    /// Returns its terms in the spec.
    pub(super) const fn party(&self) -> &Party {
        &self.party
    }

    /// Splits the ascending numbers of a batch into those of its units and those of canaries, counted from 0.
    pub(super) fn split_batch<'a>(&self, numbers: &'a [usize]) -> (&'a [usize], impl Iterator<Item = usize> + use<'a>) {
        let count = self.units.len();
        let (units, canaries) = numbers.split_at(numbers.partition_point(|number| *number < count));
        (units, canaries.iter().map(move |number| number - count))
    }

    /// Returns q.
    pub(super) const fn rate(&self) -> SamplingRate {
        self.party.sampling_rate
    }

    /// Returns q n: the divisor of every sum.
    pub(super) fn expected_batch(&self) -> f64 {
        self.party.sampling_rate.get() * self.size as f64
    }

    /// Returns the utterances of some units, each unit cut to the public length. The cut depends on the unit alone.
    pub(super) fn units(&self, numbers: &[usize]) -> Vec<Unit<'_>> {
        let whole = |unit: &usize| self.units[*unit].iter().map(|i| self.data.example(*i));
        let inputs = self.data.inputs();
        numbers.iter().map(|unit| truncate_unit(whole(unit), self.longest.unwrap_or(usize::MAX), inputs)).collect()
    }

    /// Returns the number of frames to which units are cut; `None` for public data.
    pub(super) const fn longest(&self) -> Option<usize> {
        self.longest
    }

    /// Returns n of the manifest.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Logs the number of cut units at the site: the steward may want to declare a greater length.
    fn warn_of_long_units(&self) {
        // The rows of a unit beyond the limit were not even read.
        let (Some(longest), TrainingData::Speech(_)) = (self.longest, &self.data) else { return };
        let frames = |unit: &Vec<usize>| unit.iter().map(|i| self.data.example(*i).labels.len()).sum::<usize>();
        let long = self.units.iter().filter(|unit| frames(unit) > longest).count();
        if long > 0 {
            tracing::warn!(
                dataset.name = self.data.name(),
                units.cut = long,
                units.longest_seconds = longest as f64 / 100.0,
                "units are longer than the policy's longest_unit_seconds; training leaves out their rest"
            );
        }
    }

    /// Checks that the inputs and classes of the shared model cover the data.
    ///
    /// # Errors
    /// [`RunError::Failed`] with the mismatch.
    pub(super) fn check_model(&self, model: &Model) -> Result<(), RunError> {
        check_model(&self.data, model.shape().inputs, model.shape().classes)
    }
}

const fn clip_mode(clipping: Clipping) -> ClipMode {
    match clipping {
        Clipping::Flat => ClipMode::Flat,
        Clipping::PerLayer => ClipMode::PerLayer,
        Clipping::Automatic => ClipMode::Automatic,
    }
}

/// Checks that a model with these inputs and classes fits a dataset.
pub(super) fn check_model(data: &TrainingData, inputs: usize, classes: usize) -> Result<(), RunError> {
    let dataset = || data.name().to_owned();
    if data.inputs() != inputs {
        return Err(TrainingError::Inputs { dataset: dataset(), coefficients: data.inputs(), inputs }.into());
    }
    if data.classes() > classes {
        return Err(TrainingError::Classes { dataset: dataset(), labels: data.classes(), classes }.into());
    }
    Ok(())
}

/// Returns a unit's utterances up to `frames` frames.
fn truncate_unit<'a>(whole: impl Iterator<Item = Example<'a>>, mut frames: usize, inputs: usize) -> Unit<'a> {
    let mut unit = Unit::new();
    for example in whole {
        if frames == 0 {
            break;
        }
        let length = example.labels.len().min(frames);
        frames -= length;
        unit.push(Example { features: &example.features[..length * inputs], labels: &example.labels[..length] });
    }
    unit
}

#[cfg(test)]
mod tests {
    use super::truncate_unit;
    use crate::speech::model::gradient::Example;

    #[test]
    fn unit_is_cut_to_the_public_length() {
        let features = [0.0; 20];
        let labels = [1; 10];
        let whole = || {
            let lengths = [4, 6].into_iter();
            lengths.map(|length| Example { features: &features[..2 * length], labels: &labels[..length] })
        };
        for (longest, lengths) in [(1, vec![1]), (4, vec![4]), (7, vec![4, 3]), (10, vec![4, 6]), (99, vec![4, 6])] {
            let unit = truncate_unit(whole(), longest, 2);
            assert_eq!(unit.iter().map(|example| example.labels.len()).collect::<Vec<_>>(), lengths);
            assert!(unit.iter().all(|example| example.features.len() == 2 * example.labels.len()));
        }
    }
}
