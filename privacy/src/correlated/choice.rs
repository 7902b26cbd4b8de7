//! A proposed number of bands: the one with the least error of the running sums at the same ε.
//!
//! ε is that of the Rényi curve at δ = 1e-6. The choice reads public terms alone, and decides nothing about a price.

use std::num::NonZeroU32;

use super::banded::{BandedEncoder, MOST_BANDS};
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::OrderGrid;
use crate::event::Event;
use crate::mechanism;
use crate::unit::{Delta, NoiseMultiplier, SamplingRate};

/// The tried numbers of bands.
const TRIED: [u32; 8] = [2, 3, 4, 6, 8, 12, 16, 20];
/// The factor of the error at which bands are proposed: smaller gains disappear in the randomness of a training.
const LEAST_GAIN: f64 = 0.98;
/// The relative width at which the search for a multiplier ends.
const PRECISION: f64 = 1.002;

/// A proposed number of bands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandProposal {
    /// b.
    pub bands: NonZeroU32,
    /// The noise multiplier, relative to the clip times the column norm, of the same ε.
    pub noise_multiplier: NoiseMultiplier,
    /// The error of the running sums, relative to independent noise of the same ε.
    pub error: f64,
}

/// Returns the number of bands with the least error of the running sums, for a training of `steps` steps whose independent
/// noise has the multiplier z; `None` where no number of bands gains 2 %.
pub fn propose_bands(
    sampling_rate: SamplingRate,
    noise_multiplier: NoiseMultiplier,
    steps: NonZeroU32,
) -> Option<BandProposal> {
    let independent = BandedEncoder::best(NonZeroU32::MIN, steps).errors(steps).root_mean_square;
    let proposals = TRIED.into_iter().filter_map(|bands| {
        let bands = NonZeroU32::new(bands.min(MOST_BANDS)).filter(|bands| *bands <= steps)?;
        let found = match_noise(sampling_rate, noise_multiplier, steps, bands)?;
        let encoder = BandedEncoder::best(bands, steps);
        let deviation = encoder.errors(steps).root_mean_square * encoder.column_norm() * found.get();
        let error = deviation / (independent * noise_multiplier.get());
        Some(BandProposal { bands, noise_multiplier: found, error })
    });
    proposals.min_by(|one, other| one.error.total_cmp(&other.error)).filter(|best| best.error <= LEAST_GAIN)
}

/// Returns the multiplier of the noise with `bands` bands that has the ε of independent noise with the multiplier z; `None`
/// for more bands than 1/q, and where no multiplier is enough.
pub fn match_noise(
    sampling_rate: SamplingRate,
    noise_multiplier: NoiseMultiplier,
    steps: NonZeroU32,
    bands: NonZeroU32,
) -> Option<NoiseMultiplier> {
    let in_turn = sampling_rate.for_turns(bands)?;
    let plain = Event::PoissonSampledGaussian { sampling_rate, noise_multiplier }.times(steps.get().into());
    let target = epsilon(&plain)?;
    let z = noise_multiplier.get();
    let is_enough = |z: f64| {
        let event = NoiseMultiplier::new(z).map(|noise_multiplier| Event::BandedGaussian {
            sampling_rate: in_turn,
            noise_multiplier,
            bands,
            releases: steps,
        });
        event.ok().and_then(|event| epsilon(&event)).is_some_and(|found| found <= target)
    };
    let (mut low, mut high) = (z / 2.0, z);
    while !is_enough(high) {
        (low, high) = (high, high * 1.5);
        if high > 64.0 * z {
            return None;
        }
    }
    while high / low > PRECISION {
        let middle = (low * high).sqrt();
        if is_enough(middle) { high = middle } else { low = middle }
    }
    NoiseMultiplier::new(high).ok()
}

fn epsilon(event: &Event) -> Option<f64> {
    let curve = mechanism::noise_curve(event, Adjacency::ZeroOut, &OrderGrid::reporting()).ok()?;
    Some(convert::epsilon(&curve, Delta::new(1e-6).ok()?)?.get())
}
