//! This participant's contribution: its data, its units, its terms.

use undertone_api::job::dp_sgd::{Arm, Clipping, Noise, Party, SelectionCandidate, Spec};
use undertone_privacy::SamplingRate;

use super::development::{self, Development};
use crate::dp::clip::{Clip, ClipMode};
use crate::dp::sampler::Sampler;
use crate::run::{Exchange, RunError};
use crate::speech::dataset::{Dataset, DatasetError, Split};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Example, Unit};

impl From<DatasetError> for RunError {
    fn from(error: DatasetError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A participant's kind of contribution to an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// Exact mean gradients, if the site allows.
    Exact,
    /// Clipped and with noise.
    Noisy(Clip),
    /// No contribution.
    None,
}

/// One participant's state.
pub(super) struct Site {
    dataset: Dataset,
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
    /// The choice of its selection, once the development data are known.
    choice: Option<Choice>,
}

/// A private selection at a site.
pub(super) struct Choice {
    /// The candidates.
    pub(super) candidates: Vec<SelectionCandidate>,
    /// The data that score them.
    pub(super) development: Development,
}

impl Site {
    /// Opens the participant's dataset and checks it against the spec.
    ///
    /// # Errors
    /// [`RunError::Failed`] with a text for the site's operators.
    pub(super) fn open(spec: &Spec, exchange: &dyn Exchange) -> Result<Self, RunError> {
        let own = exchange.own();
        let failed = |text: String| Err(RunError::Failed(text));
        let Some(party) = spec.party(own.dataset).copied() else {
            return failed(format!("`{}` does not take part in this job; only participants run it", own.dataset_name));
        };
        let clip = |noise: Noise| {
            Clip::new(noise.clip, noise.noise_multiplier).map(|clip| clip.with_mode(mode(noise.clipping)))
        };
        let clip = match party.noise.map(clip).transpose() {
            Ok(clip) => clip,
            Err(error) => return failed(format!("noise of `{}`: {error}", own.dataset_name)),
        };
        if own.units == 0 {
            return failed(format!("the manifest gives `{}` no units to divide by", own.dataset_name));
        }
        let dataset = Dataset::open(&exchange.dataset(own.dataset)?)?;
        // Public data need no protection: without a column of users, speakers replace them.
        let mut units = match own.charge {
            Some(_) => dataset.units(spec.unit, Split::Train)?,
            None => dataset.groups(spec.unit, Split::Train),
        };
        let leads = spec.participants.first().is_some_and(|first| first.dataset == party.dataset);
        let set_aside = if leads { development::set_aside(spec, &dataset)? } else { Vec::new() };
        if !set_aside.is_empty() {
            for unit in &mut units {
                unit.retain(|utterance| set_aside.binary_search(utterance).is_err());
            }
            units.retain(|unit| !unit.is_empty());
        }
        if units.is_empty() {
            return failed(format!("`{}` holds no utterance to train on: all are held out", own.dataset_name));
        }
        let (size, charged) = (own.units, own.charge.is_some());
        let longest = exchange.longest_unit(spec.unit).filter(|_| charged);
        let site = Self { dataset, units, party, clip, size, charged, set_aside, longest, choice: None };
        site.tell_long_units();
        Ok(site)
    }

    /// Returns whether it is the first participant.
    pub(super) fn leads(&self, spec: &Spec) -> bool {
        spec.participants.first().is_some_and(|first| first.dataset == self.party.dataset)
    }

    /// Returns the data that the lead publishes so that others can score their runs; `None` without a selection.
    pub(super) fn development(&self, spec: &Spec) -> Option<Development> {
        spec.selection.as_ref().map(|_| Development::of(&self.dataset, &self.set_aside))
    }

    /// Returns whether each of its vectors of the private arm is the best of several runs: if it is charged, and the
    /// spec has a selection. Public data need no protection, and take the arm's own steps.
    pub(super) const fn selects(&self, spec: &Spec) -> bool {
        spec.selection.is_some() && self.charged && self.clip.is_some()
    }

    /// Sets the data that score its runs.
    pub(super) fn choose_by(&mut self, spec: &Spec, development: Development) {
        let candidates = spec.selection.iter().flat_map(|selection| selection.candidates.clone()).collect();
        self.choice = Some(Choice { candidates, development });
    }

    /// Returns the choice of its selection.
    pub(super) const fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }

    /// Returns the utterances for training.
    pub(super) fn training(&self) -> Vec<usize> {
        let all = self.dataset.split(Split::Train).into_iter();
        all.filter(|utterance| self.set_aside.binary_search(utterance).is_err()).collect()
    }

    /// Returns its data.
    pub(super) const fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns its part in an arm.
    pub(super) const fn part(&self, arm: Arm) -> Part {
        match (arm, self.clip) {
            (Arm::Private, Some(clip)) => Part::Noisy(clip),
            (Arm::Private, None) if self.charged => Part::None,
            (Arm::Open | Arm::Private, _) => Part::Exact,
            (Arm::Public, _) => Part::None,
        }
    }

    /// Returns the sampler of its units, by its sampling rate, and of `canaries` canaries, numbered after the units.
    pub(super) const fn sampler(&self, canaries: usize) -> Sampler {
        Sampler::new(self.units.len() + canaries, self.party.sampling_rate)
    }

    /// Splits the ascending numbers of a batch into those of its units and those of canaries, counted from 0.
    pub(super) fn split<'a>(&self, numbers: &'a [usize]) -> (&'a [usize], impl Iterator<Item = usize> + use<'a>) {
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
        let whole = |unit: &usize| self.units[*unit].iter().map(|i| example(&self.dataset, *i));
        let inputs = self.dataset.meta().inputs;
        numbers.iter().map(|unit| cut(whole(unit), self.longest.unwrap_or(usize::MAX), inputs)).collect()
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
    fn tell_long_units(&self) {
        let Some(longest) = self.longest else { return };
        let frames = |unit: &Vec<usize>| unit.iter().map(|i| self.dataset.utterance(*i).frames()).sum::<usize>();
        let long = self.units.iter().filter(|unit| frames(unit) > longest).count();
        if long > 0 {
            tracing::warn!(
                dataset.name = self.dataset.meta().name,
                units.cut = long,
                units.longest_seconds = longest as f64 / 100.0,
                "units are longer than the policy's longest_unit_seconds; the rest of them is not trained on"
            );
        }
    }

    /// Checks that the inputs and classes of the shared model cover the data.
    ///
    /// # Errors
    /// [`RunError::Failed`] with the mismatch.
    pub(super) fn check_model(&self, model: &Model) -> Result<(), RunError> {
        check_model(&self.dataset, model.shape().inputs, model.shape().classes)
    }
}

const fn mode(clipping: Clipping) -> ClipMode {
    match clipping {
        Clipping::Flat => ClipMode::Flat,
        Clipping::PerLayer => ClipMode::PerLayer,
        Clipping::Automatic => ClipMode::Automatic,
    }
}

/// Checks that a model with these inputs and classes fits a dataset.
pub(super) fn check_model(dataset: &Dataset, inputs: usize, classes: usize) -> Result<(), RunError> {
    let meta = dataset.meta();
    if meta.inputs != inputs {
        return Err(RunError::Failed(format!(
            "`{}` has {} coefficients a frame, the model takes {inputs}: prepare it with the same features",
            meta.name, meta.inputs
        )));
    }
    if meta.classes > classes {
        return Err(RunError::Failed(format!(
            "`{}` has {} classes, the model only {classes}: propose the job with `model.classes` of at least {}",
            meta.name, meta.classes, meta.classes
        )));
    }
    Ok(())
}

/// Returns a unit's utterances up to `frames` frames.
fn cut<'a>(whole: impl Iterator<Item = Example<'a>>, mut frames: usize, inputs: usize) -> Unit<'a> {
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

/// Returns one utterance as an example.
pub(super) fn example(dataset: &Dataset, i: usize) -> Example<'_> {
    let utterance = dataset.utterance(i);
    Example { features: utterance.features, labels: utterance.labels }
}

#[cfg(test)]
mod tests {
    use super::cut;
    use crate::speech::model::gradient::Example;

    #[test]
    fn unit_is_cut_to_the_public_length() {
        let (features, labels) = (vec![0.0; 20], vec![1; 10]);
        let whole = || {
            let lengths = [4, 6].into_iter();
            lengths.map(|length| Example { features: &features[..2 * length], labels: &labels[..length] })
        };
        for (longest, lengths) in [(1, vec![1]), (4, vec![4]), (7, vec![4, 3]), (10, vec![4, 6]), (99, vec![4, 6])] {
            let unit = cut(whole(), longest, 2);
            assert_eq!(unit.iter().map(|example| example.labels.len()).collect::<Vec<_>>(), lengths);
            assert!(unit.iter().all(|example| example.features.len() == 2 * example.labels.len()));
        }
    }
}
