//! Random events of every kind, for the property tests of prices and of the ledger.

use std::num::{NonZeroU16, NonZeroU32};

use proptest::prelude::*;

use super::{DistributedNoise, Event};
use crate::histogram::Partition;
use crate::kanon::{Shown, least_epsilon};
use crate::selection::Runs;
use crate::unit::{
    Delta, Epsilon, GridSteps, MeanRuns, NoiseMultiplier, NoiseSteps, RunShape, SamplingRate, StoppingRate,
};

pub(crate) fn epsilon() -> impl Strategy<Value = Epsilon> {
    (-8.0f64..4.0).prop_map(|exponent| Epsilon::new(libm::exp(exponent)).expect("positive"))
}

pub(crate) fn delta() -> impl Strategy<Value = Delta> {
    (-40.0f64..-1.0).prop_map(|exponent| Delta::new(libm::exp(exponent)).expect("below 1"))
}

pub(crate) fn noise() -> impl Strategy<Value = NoiseMultiplier> {
    (-2.5f64..4.0).prop_map(|exponent| NoiseMultiplier::new(libm::exp(exponent)).expect("positive"))
}

pub(crate) fn rate() -> impl Strategy<Value = SamplingRate> {
    prop_oneof![
        8 => (-16.0f64..0.0).prop_map(|exponent| SamplingRate::new(libm::exp(exponent)).expect("at most 1")),
        1 => Just(SamplingRate::ONE),
    ]
}

fn count(most: u32) -> impl Strategy<Value = NonZeroU32> {
    (1..=most).prop_map(|count| NonZeroU32::new(count).expect("at least 1"))
}

fn steps() -> impl Strategy<Value = NoiseSteps> {
    (8.0f64..1e6).prop_map(|steps| NoiseSteps::new(steps).expect("at least 8"))
}

fn length() -> impl Strategy<Value = GridSteps> {
    (-1.0f64..8.0).prop_map(|exponent| GridSteps::new(libm::exp(exponent)).expect("positive"))
}

fn distributed() -> impl Strategy<Value = DistributedNoise> {
    let bias = prop_oneof![Just(Delta::new(0.0).expect("in range")), delta()];
    (length(), length(), count(500), count(5000), bias).prop_map(
        |(clip, noise, contributors, dimension, rounding_bias)| DistributedNoise {
            clip,
            noise,
            contributors,
            dimension,
            rounding_bias,
        },
    )
}

fn threshold() -> impl Strategy<Value = Event> {
    let manner = prop_oneof![
        4 => Just(Shown::Counts),
        4 => Just(Shown::CountsTight),
        4 => Just(Shown::Set),
        1 => Just(Shown::CountsRenyi),
        3 => Just(Shown::SetRenyi)
    ];
    (-8.0f64..-0.2, count(60), 1.0f64..6.0, manner, count(3)).prop_map(
        |(exponent, threshold, factor, shown, rows_per_unit)| {
            let sampling_rate = SamplingRate::new(libm::exp(exponent)).expect("at most 1");
            let least = least_epsilon(Shown::Counts, sampling_rate.get());
            let epsilon = Epsilon::new(least * factor).expect("positive");
            Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit }
        },
    )
}

fn dummies() -> impl Strategy<Value = Event> {
    let partition = (count(6), count(6))
        .prop_map(|(a, b)| Partition::new(a.max(b), a.min(b)).expect("at most all of them collude"));
    (0.01f64..2.0, 20u32..3000, count(20), partition).prop_map(|(rate, shift, distance, partition)| {
        Event::TruncatedLaplace { rate: Epsilon::new(rate).expect("positive"), shift, distance, partition }
    })
}

fn runs() -> impl Strategy<Value = Runs> {
    prop_oneof![
        (prop_oneof![Just(0.0), Just(1.0), -0.9f64..4.0], 0.01f64..0.95).prop_map(|(shape, stopping)| {
            Runs::TruncatedNegativeBinomial {
                shape: RunShape::new(shape).expect("above -1"),
                stopping: StoppingRate::new(stopping).expect("inside (0, 1)"),
            }
        }),
        (-0.9f64..4.0, 0.01f64..0.95, 1u16..200).prop_map(|(shape, stopping, most)| Runs::CappedNegativeBinomial {
            shape: RunShape::new(shape).expect("above -1"),
            stopping: StoppingRate::new(stopping).expect("inside (0, 1)"),
            most: NonZeroU16::new(most).expect("at least 1"),
        }),
        (1.0f64..60.0).prop_map(|mean| Runs::Poisson { mean: MeanRuns::new(mean).expect("at least 1") }),
    ]
}

/// Draws one release of every kind that contains no other release.
pub(crate) fn release() -> impl Strategy<Value = Event> {
    prop_oneof![
        noise().prop_map(|noise_multiplier| Event::Gaussian { noise_multiplier }),
        (rate(), noise()).prop_map(|(sampling_rate, noise_multiplier)| Event::PoissonSampledGaussian {
            sampling_rate,
            noise_multiplier
        }),
        (rate(), noise(), count(32), count(500)).prop_map(|(sampling_rate, noise_multiplier, bands, releases)| {
            Event::BandedGaussian { sampling_rate, noise_multiplier, bands, releases }
        }),
        epsilon().prop_map(|epsilon| Event::Laplace { epsilon }),
        epsilon().prop_map(|epsilon| Event::Pure { epsilon }),
        (epsilon(), delta()).prop_map(|(epsilon, delta)| Event::Approximate { epsilon, delta }),
        Just(Event::NonPrivate),
        (noise(), steps()).prop_map(|(noise_multiplier, steps)| Event::DiscreteGaussian { noise_multiplier, steps }),
        (rate(), noise(), steps()).prop_map(|(sampling_rate, noise_multiplier, steps)| {
            Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, steps }
        }),
        distributed().prop_map(Event::DistributedDiscreteGaussian),
        (rate(), distributed()).prop_map(|(sampling_rate, noise)| {
            let noise = Box::new(noise);
            Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise }
        }),
        threshold(),
        dummies(),
    ]
}

/// Draws every variant, nested.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    release().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|events| Event::Composed { events }),
            (0u64..1000, inner.clone()).prop_map(|(count, of)| of.times(count)),
            inner.clone().prop_map(|of| Event::Substituted { of: Box::new(of) }),
            (inner, runs()).prop_map(|(of, runs)| Event::Selected { of: Box::new(of), runs }),
        ]
    })
}

/// Returns the same release with stronger protection; `None` for an event without a parameter to strengthen. The match
/// is exhaustive on purpose: a new variant must state its parameter of protection here, and be generated above.
pub(crate) fn quieter(event: &Event, factor: f64) -> Option<Event> {
    let more = |z: NoiseMultiplier| NoiseMultiplier::new(z.get() * factor).expect("finite");
    let less = |epsilon: Epsilon| Epsilon::new(epsilon.get() / factor).expect("finite");
    let wider = |steps: GridSteps| GridSteps::new(steps.get() * factor).expect("finite");
    let scaled = |count: u32| (f64::from(count) * factor).ceil() as u32;
    Some(match event {
        Event::Gaussian { noise_multiplier } => Event::Gaussian { noise_multiplier: more(*noise_multiplier) },
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            Event::PoissonSampledGaussian { sampling_rate: *sampling_rate, noise_multiplier: more(*noise_multiplier) }
        }
        Event::BandedGaussian { sampling_rate, noise_multiplier, bands, releases } => Event::BandedGaussian {
            sampling_rate: *sampling_rate,
            noise_multiplier: more(*noise_multiplier),
            bands: *bands,
            releases: *releases,
        },
        Event::Laplace { epsilon } => Event::Laplace { epsilon: less(*epsilon) },
        Event::Pure { epsilon } => Event::Pure { epsilon: less(*epsilon) },
        Event::Approximate { epsilon, delta } => {
            let delta = Delta::new(delta.get() / factor).expect("smaller");
            Event::Approximate { epsilon: less(*epsilon), delta }
        }
        Event::NonPrivate => return None,
        Event::Composed { events } => {
            Event::Composed { events: events.iter().filter_map(|part| quieter(part, factor)).collect() }
        }
        Event::Repeated { count, of } => quieter(of, factor)?.times(*count),
        Event::DiscreteGaussian { noise_multiplier, steps } => {
            Event::DiscreteGaussian { noise_multiplier: more(*noise_multiplier), steps: *steps }
        }
        Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, steps } => {
            let sampling_rate = *sampling_rate;
            let noise_multiplier = more(*noise_multiplier);
            Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, steps: *steps }
        }
        Event::DistributedDiscreteGaussian(noise) => {
            Event::DistributedDiscreteGaussian(DistributedNoise { noise: wider(noise.noise), ..*noise })
        }
        Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise } => {
            let noise = Box::new(DistributedNoise { noise: wider(noise.noise), ..**noise });
            Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate: *sampling_rate, noise }
        }
        Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit } => {
            let (sampling_rate, epsilon, shown) = (*sampling_rate, *epsilon, *shown);
            // By its Rényi loss a higher threshold moves less into the side mass, and may lose more at high orders.
            let (threshold, rows_per_unit) = if shown.has_renyi_price() {
                let rows = NonZeroU32::new((f64::from(rows_per_unit.get()) / factor) as u32);
                (*threshold, rows.unwrap_or(NonZeroU32::MIN))
            } else {
                (NonZeroU32::new(scaled(threshold.get())).expect("at least what it was"), *rows_per_unit)
            };
            Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit }
        }
        Event::TruncatedLaplace { rate, shift, distance, partition } => {
            let rate = *rate;
            let shift = scaled(*shift);
            let distance = *distance;
            let partition = *partition;
            Event::TruncatedLaplace { rate, shift, distance, partition }
        }
        Event::Substituted { of } => Event::Substituted { of: Box::new(quieter(of, factor)?) },
        Event::Selected { of, runs } => Event::Selected { of: Box::new(quieter(of, factor)?), runs: *runs },
    })
}
