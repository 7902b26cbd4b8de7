//! The guarantee of a masked sum beside that of plain averaging.

use std::error::Error;
use std::num::NonZeroU32;

use serde_json::{Value, json};
use undertone_privacy::calibrate::MaskedSum;
use undertone_privacy::ledger::Headroom;
use undertone_privacy::unit::GridSteps;
use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, OrderGrid, SamplingRate, convert, mechanism};

use super::GroupCase;

/// z of a site alone, whose noise is σ.
const NOISE_MULTIPLIER: f64 = 1.0;
const SAMPLING_RATE: f64 = 0.05;
const ROUNDS: u64 = 50;
const DELTA: f64 = 1e-6;
/// The probability with which the bound on a rounded contribution is not met, and the rounding is repeated.
const ROUNDING_BIAS: f64 = 1e-9;

/// Returns the prices of a case: ε of plain averaging, the noise of a site in the group for the same ε, and ε against all other sites.
pub(super) fn compare(case: GroupCase) -> Result<Value, Box<dyn Error>> {
    let delta = Delta::new(DELTA)?;
    let sampling_rate = SamplingRate::new(SAMPLING_RATE)?;
    let alone = NoiseMultiplier::new(NOISE_MULTIPLIER)?;
    let grid = OrderGrid::reporting();
    let epsilon = |event: Event| -> Result<_, Box<dyn Error>> {
        let curve = mechanism::curve(&event.times(ROUNDS), Adjacency::ZeroOut, &grid)?;
        Ok(convert::epsilon(&curve, delta).ok_or("the noise leaves no guarantee")?)
    };
    let plain = epsilon(Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: alone })?;
    let sum = MaskedSum {
        clip: GridSteps::new(f64::from(case.deviation) / NOISE_MULTIPLIER)?,
        dimension: NonZeroU32::try_from(u32::try_from(case.length)?)?,
        rounding_bias: Delta::new(ROUNDING_BIAS)?,
        honest: NonZeroU32::try_from(u32::from(case.terms.least_honest()))?,
    };
    let headroom = Headroom::of_guarantee(plain, delta, &grid);
    let needed = sum.least_site_noise(&headroom, sampling_rate, ROUNDS, Adjacency::ZeroOut)?;
    let noise = GridSteps::new(needed.get().into())?;
    Ok(json!({
        "sampling_rate": SAMPLING_RATE, "noise_multiplier": NOISE_MULTIPLIER, "rounds": ROUNDS, "delta": DELTA,
        "epsilon_plain": plain.get(), "epsilon_outsider": epsilon(sum.outsider(noise, sampling_rate))?.get(),
        "epsilon_insider": epsilon(sum.insider(noise, sampling_rate))?.get(),
        "site_noise_steps": needed, "noise_reduction": sum.noise_reduction(alone, noise),
    }))
}
