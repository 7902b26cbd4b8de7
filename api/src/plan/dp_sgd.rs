//! Plans of a `dp_sgd` job: by the rounds of its private arm, and by each party's noise and sampling rate.

use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::{PlanParameter, RoundedKind};
use crate::id::DatasetId;
use crate::job::TermName;
use crate::job::dp_sgd::Spec;

impl Spec {
    /// Fits the ranges of open terms to a changed parameter: the proposal's own value lies within them.
    fn fit_open_terms(&mut self, knob: PlanParameter, dataset: DatasetId, value: f64) {
        for open in &mut self.open_terms {
            let is_own = open.dataset.is_none_or(|own| own == dataset);
            match (knob, open.term) {
                (PlanParameter::Rounds, TermName::Rounds) => {
                    open.max = open.max.min(value);
                    open.min = open.min.min(value);
                }
                (PlanParameter::Noise, TermName::NoiseMultiplier)
                | (PlanParameter::SamplingRate, TermName::SamplingRate)
                    if is_own =>
                {
                    open.max = open.max.max(value);
                    open.min = open.min.min(value);
                }
                _ => {}
            }
        }
    }
}

impl RoundedKind for Spec {
    fn rounds(&self) -> u32 {
        self.private.map_or(0, |rounds| rounds.rounds)
    }

    fn steps(&self) -> u32 {
        self.private.map_or(1, |rounds| rounds.local_steps.max(1))
    }

    fn value(&self, knob: PlanParameter, dataset: DatasetId) -> Option<f64> {
        let party = self.party(dataset)?;
        match knob {
            PlanParameter::Rounds => self.private.map(|rounds| f64::from(rounds.rounds)),
            PlanParameter::Noise => party.noise.map(|noise| noise.noise_multiplier.get()),
            PlanParameter::SamplingRate => Some(party.sampling_rate.get()),
            PlanParameter::Threshold | PlanParameter::Epsilon | PlanParameter::Delta => None,
        }
    }

    fn set(&mut self, knob: PlanParameter, dataset: DatasetId, value: f64) {
        if knob == PlanParameter::Rounds {
            let all = value as u32;
            self.private.iter_mut().for_each(|rounds| rounds.rounds = all);
            self.participants.iter_mut().for_each(|party| party.rounds = party.rounds.filter(|own| *own < all));
        }
        self.fit_open_terms(knob, dataset, value);
        for party in self.participants.iter_mut().filter(|party| party.dataset == dataset) {
            match (knob, NoiseMultiplier::new(value), SamplingRate::new(value)) {
                (PlanParameter::Noise, Ok(z), _) => party.noise.iter_mut().for_each(|noise| noise.noise_multiplier = z),
                (PlanParameter::SamplingRate, _, Ok(q)) => party.sampling_rate = q,
                _ => {}
            }
        }
    }

    fn field(&self, knob: PlanParameter, dataset: DatasetId) -> String {
        let index = self.participants.iter().position(|party| party.dataset == dataset).unwrap_or(0);
        match knob {
            PlanParameter::Rounds => "spec.private.rounds".to_owned(),
            PlanParameter::Noise => format!("spec.participants.{index}.noise.noise_multiplier"),
            PlanParameter::SamplingRate | PlanParameter::Threshold | PlanParameter::Epsilon | PlanParameter::Delta => {
                format!("spec.participants.{index}.sampling_rate")
            }
        }
    }
}
