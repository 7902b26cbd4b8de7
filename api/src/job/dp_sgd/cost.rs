//! The charge of a `dp_sgd` job: the release of one vector of a party, and the worst-case number of releases. The
//! ledgers, the sites' policies and every planner use it.
//!
//! A round of s local steps is s noisy gradients, of which only the sum of steps leaves: one charge of `Repeated`. The
//! best of several runs is `Selected`. The method of clipping, the optimizer, the trained parts and the width of
//! numbers do not change the charge: the noise is z times the sensitivity in each case, and the rest is
//! post-processing. Correlated noise is one mechanism: all rounds of a party have one price, charged by the first of them,
//! and none is made a second time. A round under masks is charged as a sum with the noise of several sites (`masked.rs`).

use undertone_privacy::{Adjacency, Event};

use super::{Arm, Party, Spec};
use crate::dataset::{Dataset, Visibility};
use crate::job::Charge;

/// Implements [`crate::job::JobKind::cost`].
pub(super) fn cost(spec: &Spec, dataset: &Dataset) -> Option<Charge> {
    if dataset.visibility == Visibility::Public {
        return None;
    }
    let party = spec.party(dataset.id)?;
    let charge = |event, releases| Charge { unit: spec.unit, adjacency: Adjacency::ZeroOut, event, releases };
    // The private arm is always charged, so an owner who also opens the dataset for the comparison sees the private
    // arm's cost separately. The open arm's releases have no price; they are recorded next to the account.
    if let Some(event) = spec.private_event(party, dataset.inputs) {
        let spare = if event.whole_releases().is_some() { 0 } else { spec.spare_releases };
        return Some(charge(event, u64::from(spec.rounds_of(party)) + u64::from(spare)));
    }
    let open = spec.open.as_ref().filter(|_| dataset.visibility == Visibility::Open)?;
    Some(charge(Event::NonPrivate, u64::from(open.rounds)))
}

/// Implements [`crate::job::JobKind::release`].
pub(super) fn release(spec: &Spec, dataset: &Dataset, series: &str) -> Option<Event> {
    let party = spec.party(dataset.id)?;
    match dataset.visibility {
        Visibility::Public => None,
        Visibility::Open if spec.open.is_some() && series == Arm::Open.series() => Some(Event::NonPrivate),
        Visibility::Open | Visibility::Private => {
            if series == Arm::Private.series() {
                spec.private_event(party, dataset.inputs)
            } else {
                None
            }
        }
    }
}

impl Spec {
    /// Returns the release of one vector of a party in the private series, or of all of them with correlated noise; `None` if the party adds no noise, or there
    /// is no such series. `inputs` are the inputs of the party's dataset.
    pub fn private_event(&self, party: &Party, inputs: u32) -> Option<Event> {
        let rounds = self.private.as_ref()?;
        if let Some(masks) = self.masks() {
            // A round is one step: the check refuses more, and a selection.
            return self.masked_event(party, inputs, masks.honest());
        }
        if let Some(mechanism) = self.banded_event(party) {
            return Some(mechanism);
        }
        let step = party.step_event()?;
        let training = match rounds.local_steps {
            0 | 1 => step,
            steps => step.times(u64::from(steps)),
        };
        Some(match &self.selection {
            Some(selection) => selection.event(training),
            None => training,
        })
    }
}

impl Party {
    /// Returns the release of one noisy gradient; `None` if the party adds no noise.
    pub fn step_event(&self) -> Option<Event> {
        let noise_multiplier = self.noise?.noise_multiplier;
        Some(Event::PoissonSampledGaussian { sampling_rate: self.sampling_rate, noise_multiplier })
    }
}
