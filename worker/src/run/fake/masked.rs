//! Masked rounds in memory: the server adds the sums of the group, and divides by the expected batches.

use std::num::NonZeroU32;

use undertone_api::job::Spec;
use undertone_api::job::dp_sgd::{self, SecureAggregation};

use super::state::to_owned_key;
use super::{FakeExchange, FakeRelease, FakeState};
use crate::dp::release::{GroupNoise, NoisySum};
use crate::run::{MaskedAveraging, RoundAverage, RoundKey, RoundProgress, RunContext as _, RunError};

impl FakeExchange<'_> {
    /// Returns the group of a series, if its vectors are masked.
    pub(super) fn masks(&self, series: &str) -> Option<(&dp_sgd::Spec, &SecureAggregation)> {
        let Spec::DpSgd(spec) = &self.manifest.spec else { return None };
        Some((spec, spec.masks().filter(|_| series == "private")?))
    }

    /// Returns the average of a masked round: the sums of the group in their steps, and the mean gradients of the others,
    /// by their expected batches. `None` for a round without masks, and while vectors are missing.
    pub(super) fn masked_mean(&self, state: &FakeState, key: RoundKey<'_>) -> Option<RoundAverage> {
        let (spec, masks) = self.masks(key.series)?;
        let step = masks.step(spec.participants.iter().find_map(|party| party.noise)?.clip);
        let batch = |index: usize| spec.participants[index].expected_batch(self.manifest.participants[index].units);
        let (vectors, sums) = (state.vectors.get(&to_owned_key(key)), state.sums.get(&to_owned_key(key)));
        let (vectors, sums) = vectors.zip(sums)?;
        if vectors.len() + sums.len() < self.manifest.participants.len() {
            return None;
        }
        let total: f64 = vectors.keys().chain(sums.keys()).map(|index| batch(*index)).sum();
        let length = sums.values().next().map_or(0, Vec::len);
        let coordinate = |n: usize| {
            let plain: f64 = vectors.iter().map(|(index, vector)| batch(*index) * f64::from(vector[n])).sum();
            let steps: i64 = sums.values().map(|sum| i64::from(sum[n])).sum();
            ((plain + step * steps as f64) / total) as f32
        };
        let mean: Vec<f32> = (0..length).map(coordinate).collect();
        let contributors = (vectors.len() + sums.len()) as u32;
        Some(RoundAverage { mean: self.transmit(key.series, &mean), contributors })
    }
}

impl MaskedAveraging for FakeExchange<'_> {
    fn group_noise(&self) -> Result<GroupNoise, RunError> {
        let Some((spec, masks)) = self.masks("private") else { panic!("the job has no group") };
        let z = spec.participants[self.index].noise.unwrap().noise_multiplier;
        let deviation = NonZeroU32::new(masks.site_deviation(z)).unwrap();
        Ok(GroupNoise { charged: deviation, drawn: deviation, honest: masks.honest() })
    }

    fn resume_masked(&mut self, key: RoundKey<'_>) -> Result<bool, RunError> {
        match self.round_progress(key)? {
            RoundProgress::Untouched => Ok(false),
            RoundProgress::Stored => self.submit(key).map(|()| true),
            RoundProgress::Accepted | RoundProgress::Lost => Ok(true),
        }
    }

    fn send_sum(&mut self, key: RoundKey<'_>, sum: NoisySum) -> Result<(), RunError> {
        assert!(sum.grant().is_some());
        self.store(key, FakeRelease::Sum(sum.vector().to_vec()))?;
        self.submit(key)
    }
}
