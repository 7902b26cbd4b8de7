//! The composition of one release of a training plan, and the noise that it needs to fit.

use undertone_privacy::calibrate::noise_for;
use undertone_privacy::ledger::{Balance, FilterKind};
use undertone_privacy::{Event, NoiseMultiplier, SamplingRate, mechanism};

use crate::job::Charge;

/// The greatest noise multiplier that the sites can draw exactly.
pub(super) const MOST_NOISE: u64 = 1024;

/// A release of Gaussian steps: one step, the sum of several, the turns of a unit with correlated noise, or the best of
/// several runs of these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GaussianRelease {
    /// q of every step.
    pub(super) sampling_rate: SamplingRate,
    /// Steps in a run.
    pub(super) steps: u64,
    /// Whether it is the best of several runs.
    pub(super) selected: bool,
}

impl GaussianRelease {
    /// Returns the composition of an event; `None` if it does not consist of Gaussian steps.
    pub(super) fn from_event(event: &Event) -> Option<Self> {
        match event {
            Event::PoissonSampledGaussian { sampling_rate, .. } => {
                Some(Self { sampling_rate: *sampling_rate, steps: 1, selected: false })
            }
            Event::Repeated { count, of } => {
                let composition = Self::from_event(of)?;
                Some(Self { steps: composition.steps.saturating_mul(*count), ..composition })
            }
            Event::BandedGaussian { sampling_rate, bands, releases, .. } => {
                let steps = releases.get().div_ceil(bands.get()).into();
                Some(Self { sampling_rate: *sampling_rate, steps, selected: false })
            }
            Event::Selected { of, .. } => Some(Self { selected: true, ..Self::from_event(of)? }),
            _ => None,
        }
    }
}

/// Returns the expected share of all units in the batch of each step; `None` if the event does not consist of Gaussian
/// steps.
pub(super) fn expected_share(event: &Event) -> Option<f64> {
    match event {
        Event::BandedGaussian { sampling_rate, bands, .. } => Some(sampling_rate.get() / f64::from(bands.get())),
        _ => GaussianRelease::from_event(event).map(|release| release.sampling_rate.get()),
    }
}

/// Returns the same event with other noise in every step.
fn with_noise(event: &Event, z: NoiseMultiplier) -> Event {
    match event {
        Event::PoissonSampledGaussian { sampling_rate, .. } => {
            Event::PoissonSampledGaussian { sampling_rate: *sampling_rate, noise_multiplier: z }
        }
        Event::Repeated { count, of } => with_noise(of, z).times(*count),
        Event::BandedGaussian { sampling_rate, bands, releases, .. } => {
            let sampling_rate = *sampling_rate;
            Event::BandedGaussian { sampling_rate, noise_multiplier: z, bands: *bands, releases: *releases }
        }
        Event::Selected { of, runs } => Event::Selected { of: Box::new(with_noise(of, z)), runs: *runs },
        other => other.clone(),
    }
}

/// Returns the least noise multiplier of every step with which a charge fits into the remainder of an account; `None`
/// if none does, the release does not consist of Gaussian steps, or the account charges jobs as a whole. Rounded up: for a selection to thousandths, else at
/// most a billionth above the least.
pub fn least_noise(balance: &Balance, charge: &Charge) -> Option<f64> {
    let composition = GaussianRelease::from_event(&charge.event).filter(|_| balance.filter() == FilterKind::Renyi)?;
    let steps = charge.event.count_charges(charge.releases).checked_mul(composition.steps)?;
    if !composition.selected {
        return noise_for(&balance.headroom(), composition.sampling_rate, steps, charge.adjacency).ok().map(f64::from);
    }
    let at = |thousandths: u64| thousandths as f64 / 1000.0;
    let fits = |thousandths: u64| {
        let changed = NoiseMultiplier::new(at(thousandths)).map(|z| with_noise(&charge.event, z));
        let cost = changed.ok().and_then(|event| mechanism::curve(&event, charge.adjacency, balance.grid()).ok());
        cost.is_some_and(|cost| balance.check(&cost, charge.releases).is_ok())
    };
    let (mut low, mut high) = (0, MOST_NOISE * 1000);
    if !fits(high) {
        return None;
    }
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if fits(middle) { high = middle } else { low = middle }
    }
    Some(at(high))
}
