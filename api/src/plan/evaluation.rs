//! Plans of an `evaluation` job: one vector of histograms of each site, charged once, by its noise, which is the same at
//! all sites.

use undertone_privacy::NoiseMultiplier;

use super::{PlanParameter, RoundedKind};
use crate::id::DatasetId;
use crate::job::evaluation::Spec;

impl RoundedKind for Spec {
    const ROUND: &'static str = "evaluation";

    fn rounds(&self) -> u32 {
        1
    }

    fn value(&self, knob: PlanParameter, dataset: DatasetId) -> Option<f64> {
        let is_noisy = self.is_participant(dataset) && !self.is_lead(dataset);
        match knob {
            PlanParameter::Noise if is_noisy => Some(self.noise_multiplier.get()),
            _ => None,
        }
    }

    fn set(&mut self, knob: PlanParameter, dataset: DatasetId, value: f64) {
        if knob == PlanParameter::Noise
            && self.is_participant(dataset)
            && let Ok(z) = NoiseMultiplier::new(value)
        {
            self.noise_multiplier = z;
        }
    }

    fn field(&self, _knob: PlanParameter, _dataset: DatasetId) -> String {
        "spec.noise_multiplier".to_owned()
    }
}
