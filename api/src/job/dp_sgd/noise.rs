//! The noise of one participant, its correlation over the rounds, the clipping of its units' gradients, and the noise of
//! the average.

use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

use undertone_privacy::correlated::BandedEncoder;
use undertone_privacy::{Event, NoiseMultiplier, SamplingRate};

use super::{AverageWeights, Party, Spec};
use crate::id::DatasetId;

/// The method that limits a unit's gradient to a norm of at most C. Noise and price are the same for each method: the
/// noise is z·C, because the sensitivity of the sum is C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Clipping {
    /// The whole gradient: g · min(1, C/‖g‖).
    #[default]
    Flat,
    /// Each of the L trained parts separately, to C/√L, so that the whole is at most √(L · C²/L) = C.
    PerLayer,
    /// Normalization instead of clipping: g · C/(‖g‖ + 0.01) (Bu, Wang, Zha and Karypis 2023). No gradient reaches C;
    /// small ones count nearly as much as large ones.
    Automatic,
}

impl Clipping {
    /// γ₀ of automatic clipping. It prevents the scaling of a vanishing gradient up to C.
    pub const STABILITY: f64 = 0.01;

    /// Returns whether the method is the default, which a spec may omit.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    const fn is_flat(&self) -> bool {
        matches!(self, Self::Flat)
    }
}

/// Noise that is correlated over the rounds by an encoder of several bands, under cyclic Poisson sampling: the units are
/// split into as many groups as bands, which have their turns one after another. All rounds of the participant are one
/// release, charged by the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BandedNoise {
    /// b: the bands, 2 to 32, at most the rounds of the participant and at most 1/q. A unit of the group whose turn it is
    /// enters the batch with probability b·q.
    #[cfg_attr(feature = "openapi", schema(value_type = u32, minimum = 2, maximum = 32, example = 8))]
    pub bands: NonZeroU32,
}

/// The noise of one participant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Noise {
    /// z: the standard deviation of the noise relative to the clip.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 1.0))]
    pub noise_multiplier: NoiseMultiplier,
    /// C: the L2 norm that no unit's gradient exceeds; greater than 0, at most 1,000,000.
    #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1_000_000))]
    pub clip: f64,
    /// The method of clipping.
    #[serde(default, skip_serializing_if = "Clipping::is_flat")]
    pub clipping: Clipping,
    /// Correlation over the rounds. Absent: independent noise in each step. With it z is relative to the clip times the
    /// column norm of the encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banded: Option<BandedNoise>,
}

impl Noise {
    /// Makes noise of multiplier z on gradients clipped as a whole to `clip`.
    pub const fn flat(noise_multiplier: NoiseMultiplier, clip: f64) -> Self {
        Self { noise_multiplier, clip, clipping: Clipping::Flat, banded: None }
    }
}

impl Party {
    /// Returns q·n: the expected batch, by which sums are divided.
    pub fn expected_batch(&self, units: u64) -> f64 {
        self.sampling_rate.get() * units as f64
    }
}

impl Spec {
    /// Returns the standard deviation of a party's own noise in each coordinate of its mean gradient, z·C/(q·n), with n the
    /// public number of units; under masks s·γ/(q·n); with correlated noise the greatest of a round; 0 without noise. A
    /// public number.
    pub fn deviation(&self, party: &Party, units: u64) -> f64 {
        let factor = self.encoder(party).map_or(1.0, |encoder| encoder.column_norm() * encoder.most_deviation());
        self.independent_deviation(party, units) * factor
    }

    /// Returns the deviation that independent noise of a party's multiplier has.
    pub fn independent_deviation(&self, party: &Party, units: u64) -> f64 {
        let Some(noise) = party.noise else { return 0.0 };
        let sum = match self.masks() {
            Some(masks) => masks.site_multiplier(noise.noise_multiplier) * noise.clip,
            None => noise.noise_multiplier.get() * noise.clip,
        };
        sum / party.expected_batch(units)
    }

    /// Returns the encoder of a party's correlated noise in the private series; `None` for independent noise.
    pub fn encoder(&self, party: &Party) -> Option<BandedEncoder> {
        let bands = party.noise?.banded?.bands;
        Some(BandedEncoder::best(bands, NonZeroU32::new(self.rounds_of(party))?))
    }

    /// Returns the event of all rounds of a party with correlated noise; `None` for independent noise.
    pub(super) fn banded_event(&self, party: &Party) -> Option<Event> {
        let noise = party.noise?;
        let bands = noise.banded?.bands;
        // The check refuses more bands than 1/q. With them each unit of the group would be in its batch.
        let sampling_rate = party.sampling_rate.for_turns(bands).unwrap_or(SamplingRate::ONE);
        let releases = NonZeroU32::new(self.rounds_of(party)).unwrap_or(NonZeroU32::MIN);
        Some(Event::BandedGaussian { sampling_rate, noise_multiplier: noise.noise_multiplier, bands, releases })
    }

    /// Returns a party's weight in the average; only ratios matter.
    pub fn weight(&self, party: &Party, units: u64) -> f64 {
        match self.weights {
            AverageWeights::Equal => 1.0,
            AverageWeights::ExpectedBatch => party.expected_batch(units),
        }
    }

    /// Returns the standard deviation of the noise in each coordinate of the average of a private one-step round with
    /// all participants: √(Σ (w σ)²) / Σ w. A public number, from the signed spec; `units` returns n of a dataset.
    pub fn noise_of_average(&self, units: impl Fn(DatasetId) -> u64) -> f64 {
        let (square, sum) = self.participants.iter().fold((0.0_f64, 0.0_f64), |(square, sum), party| {
            let units = units(party.dataset);
            let weight = self.weight(party, units);
            (square + (weight * self.deviation(party, units)).powi(2), sum + weight)
        });
        if sum > 0.0 { square.sqrt() / sum } else { 0.0 }
    }
}
