//! A plan's correlated noise: whether the private parties use it, and the number of bands.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::BandedNoise;
use undertone_privacy::correlated::{match_noise, propose_bands};
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::TrainingPlan;

/// The correlated noise of a plan, the same for each private party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BandPlan {
    /// Whether noise is correlated.
    pub on: bool,
    /// b.
    pub bands: u32,
}

impl Default for BandPlan {
    fn default() -> Self {
        Self { on: false, bands: 4 }
    }
}

impl BandPlan {
    /// Returns the bands of a spec's noise; `None` for independent noise.
    pub(super) fn banded(self) -> Option<BandedNoise> {
        let bands = NonZeroU32::new(self.bands).unwrap_or(NonZeroU32::MIN);
        self.on.then_some(BandedNoise { bands })
    }

    /// Returns the plan of these bands.
    #[cfg(feature = "ssr")]
    pub(super) fn from_noise(banded: Option<BandedNoise>) -> Self {
        banded.map_or_else(Self::default, |banded| Self { on: true, bands: banded.bands.get() })
    }
}

impl TrainingPlan {
    /// Requests correlated noise, or takes it back. The bands become those with the least error for the private party with
    /// the highest sampling rate, and the noise of each party that of the same ε as before, to three digits. `is_private`
    /// returns whether a dataset is private.
    pub fn correlate_noise(&mut self, on: bool, is_private: impl Fn(undertone_api::id::DatasetId) -> bool) {
        self.bands.on = on;
        let Some(steps) = NonZeroU32::new(self.rounds).filter(|_| on) else { return };
        let is_charged = |part: &&super::DatasetPart| part.joins && is_private(part.dataset);
        let highest = self.parts.iter().filter(is_charged).max_by(|one, other| one.rate.total_cmp(&other.rate));
        let proposal = highest.and_then(|part| {
            let (rate, noise) = (SamplingRate::new(part.rate).ok()?, NoiseMultiplier::new(part.noise).ok()?);
            propose_bands(rate, noise, steps)
        });
        let Some(proposal) = proposal else { return };
        self.bands.bands = proposal.bands.get();
        for part in self.parts.iter_mut().filter(|part| part.joins && is_private(part.dataset)) {
            let (Ok(rate), Ok(noise)) = (SamplingRate::new(part.rate), NoiseMultiplier::new(part.noise)) else {
                continue;
            };
            if let Some(noise) = match_noise(rate, noise, steps, proposal.bands) {
                part.noise = (noise.get() * 1000.0).ceil() / 1000.0;
            }
        }
    }
}
