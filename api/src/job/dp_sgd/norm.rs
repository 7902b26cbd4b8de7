//! The greatest norm of an honest party's vector. Clip, noise, batch and steps are in the signed spec, so the server
//! can reject a vector that no honest party sends, before it moves the mean.
//!
//! One mean gradient is (Σ + N)/B: B = q·n is the expected batch, Σ the sum of at most b gradients of norm at most C, N
//! noise of deviation σ = z·C in each of d coordinates. With probability p of being exceeded:
//! * b ≤ μ + t/3 + √(t²/9 + 2μt), with t = ln(2/p) and μ the mean batch of the most units in the dataset's size class
//!   and of the audit's canaries (Bernstein's inequality; Boucheron, Lugosi and Massart 2013, theorem 2.10);
//! * ‖N‖ ≤ σ √(d + 2√(dt) + 2t) (Hsu, Kakade and Zhang 2012, theorem 2.1, for subgaussian coordinates; the discrete
//!   Gaussian is one: Canonne, Kamath and Steinke 2020, fact 18).
//!
//! With correlated noise σ is the greatest deviation of a round, and μ the mean over the groups of the units as well.
//!
//! Of s local steps each has probability p/s. An update of SGD with momentum m is at most s·η/(1 − m) gradients long. A
//! step of Adam moves no coordinate by more than η·(1 − β₁)/√((1 − β₂)(1 − β₁²/β₂)) by the Cauchy–Schwarz inequality. A
//! step of DP-Adam is η times a mean of gradients over the root of the least second moment, which is a share of the
//! noise's variance.
//!
//! Under masks the server sees the sum alone. Its bound is that of the parties' vectors together.
//!
//! The bound only limits how far one party moves a mean: a vector within it is accepted, and colluding parties add up.
//! Exact updates of Adam (of public or open data) have its bound as well. Other exact vectors have no clip, and so no
//! bound.

use super::{Arm, Optimizer, Party, Precision, Rounds, Spec};
use crate::dataset::Dataset;
use crate::job::RoundSeries;

/// The probability that an honest vector is rejected.
pub const FALSE_REFUSAL: f64 = 1e-12;
/// The greatest move of a coordinate in a step of Adam with learning rate 1: 0.1/√(0.001 · (1 − 0.81/0.999)), rounded
/// up.
const ADAM_STEP: f64 = 7.3;
/// The least root of DP-Adam's second moment, in deviations of the noise: √(4 · √(2 · 0.001/1.999)) is 0.3556.
const DP_ADAM_ROOT: f64 = 0.355;
/// The least clip of a site's own grid, in steps.
const LEAST_STEPS: u64 = 1 << 20;
/// The greatest factor that f32 and the noise grid add.
const ROUNDING: f64 = 1.001;

/// Implements [`crate::job::JobKind::most_norm`].
pub(super) fn most_norm(spec: &Spec, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
    let arm = [Arm::Private, Arm::Open].into_iter().find(|arm| arm.series() == series.name)?;
    let rounds = spec.rounds(arm)?;
    let length = series.length? as f64;
    let party = spec.party(dataset.id)?;
    let gradient = match arm {
        Arm::Private => GradientBound::from_party(spec, rounds, party, dataset, length),
        Arm::Open | Arm::Public => None,
    };
    let norm = match gradient {
        Some(gradient) if rounds.sends_updates() => update(spec, rounds, gradient, length),
        Some(gradient) => gradient.norm,
        None => exact_update(rounds, length)?,
    };
    Some(norm * ROUNDING * precision(series.precision)).filter(|norm| norm.is_finite())
}

/// One noisy mean gradient.
#[derive(Debug, Clone, Copy)]
struct GradientBound {
    /// Upper bound of its norm.
    norm: f64,
    /// Deviation of the noise in each coordinate.
    deviation: f64,
}

impl GradientBound {
    fn from_party(spec: &Spec, rounds: &Rounds, party: &Party, dataset: &Dataset, length: f64) -> Option<Self> {
        let noise = party.noise?;
        let expected = party.expected_batch(spec.units_of(dataset));
        let tail = libm::log(2.0 * f64::from(rounds.local_steps.max(1)) / FALSE_REFUSAL);
        let batch = batch(party, most_units(spec, dataset), tail);
        let units = spec.units_of(dataset);
        // A site with correlated noise draws a little more, for the rounding of the noise of earlier steps.
        let rounding = spec.encoder(party).map_or(1.0, |encoder| {
            let plain = encoder.column_norm() * LEAST_STEPS as f64;
            encoder.sensitivity(LEAST_STEPS, length as usize) / plain
        });
        let deviation = spec.deviation(party, units) * rounding;
        let noise_norm = deviation * (length + 2.0 * (length * tail).sqrt() + 2.0 * tail).sqrt();
        Some(Self { norm: noise.clip * batch / expected + noise_norm, deviation })
    }
}

/// Returns the most units from which a site draws its batches.
fn most_units(spec: &Spec, dataset: &Dataset) -> f64 {
    let canaries = spec.audit.map_or(0, |audit| u64::from(audit.canaries) + u64::from(audit.recordings));
    dataset.count(spec.unit).most().saturating_add(canaries) as f64
}

/// Returns the batch size that a round of a party exceeds with probability [`FALSE_REFUSAL`], for `units` units.
pub(super) fn largest_batch(party: &Party, units: f64) -> f64 {
    batch(party, units, libm::log(2.0 / FALSE_REFUSAL))
}

/// Returns the batch size that is exceeded with probability e⁻ᵗ.
fn batch(party: &Party, units: f64, tail: f64) -> f64 {
    let mean = party.sampling_rate.get() * units;
    let beyond = tail / 3.0 + (tail * tail / 9.0 + 2.0 * mean * tail).sqrt();
    units.min(mean + beyond)
}

/// Returns the norm of an update of several steps.
fn update(spec: &Spec, rounds: &Rounds, gradient: GradientBound, length: f64) -> f64 {
    let candidates = spec.selection.iter().flat_map(|selection| &selection.candidates);
    let rate = candidates.map(|candidate| candidate.learning_rate).fold(rounds.optimizer.learning_rate(), f64::max);
    let steps = rate * f64::from(rounds.local_steps);
    match rounds.optimizer {
        Optimizer::Sgd { momentum, .. } => steps * gradient.norm / (1.0 - momentum),
        Optimizer::Adam { .. } => adam_update(steps, length),
        Optimizer::DpAdam { .. } => steps * gradient.norm / (DP_ADAM_ROOT * gradient.deviation),
    }
}

/// Returns the norm of an update of steps along exact gradients: bounded for Adam alone.
fn exact_update(rounds: &Rounds, length: f64) -> Option<f64> {
    match rounds.optimizer {
        Optimizer::Adam { learning_rate } if rounds.sends_updates() => {
            Some(adam_update(learning_rate * f64::from(rounds.local_steps), length))
        }
        Optimizer::Adam { .. } | Optimizer::Sgd { .. } | Optimizer::DpAdam { .. } => None,
    }
}

/// Returns the norm of Adam's update whose learning rates add up to `rates`.
fn adam_update(rates: f64, length: f64) -> f64 {
    rates * ADAM_STEP * length.sqrt()
}

/// Returns the greatest factor by which rounding to a precision grows a norm: half a unit of the last of 8 bits; or, in
/// each block of 256 numbers, a step of the scale (1/127 of the greatest) in each number.
const fn precision(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 1.0,
        Precision::Bf16 => 1.0 + 1.0 / 256.0,
        Precision::Int8 => 1.0 + 16.0 / 127.0,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use proptest::prelude::*;
    use undertone_privacy::{NoiseMultiplier, SamplingRate};

    use super::super::tests::{older_spec, ours};
    use super::{Optimizer, Precision, Spec};
    use crate::dataset::{Dataset, SizeClass, Visibility};
    use crate::job::{JobKind as _, RoundSeries};

    /// Makes a private series of one step, with clip C, noise z and rate q.
    fn spec(clip: f64, noise: f64, rate: f64) -> Spec {
        let mut spec = older_spec();
        for party in &mut spec.participants {
            party.sampling_rate = SamplingRate::new(rate).unwrap();
            if let Some(own) = &mut party.noise {
                *own = super::super::Noise::flat(NoiseMultiplier::new(noise).unwrap(), clip);
            }
        }
        spec.audit = None;
        spec
    }

    fn series(length: u64, precision: Precision) -> RoundSeries {
        RoundSeries {
            name: "private".to_owned(),
            rounds: 1,
            quorum: 1,
            deadline_seconds: 60,
            weights: Vec::new(),
            until: Vec::new(),
            length: Some(length),
            precision,
            masked: None,
        }
    }

    fn sized(records: u64) -> Dataset {
        Dataset { records: SizeClass(records), speakers: SizeClass(records), ..ours() }
    }

    /// Returns standard normal numbers, by Box and Muller from splitmix64.
    fn normal(seed: u64, length: usize) -> Vec<f64> {
        let mut state = seed;
        let mut uniform = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut bits = state;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        let one = |first: f64, second: f64| (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
        (0..length).map(|_| one(uniform(), uniform())).collect()
    }

    proptest! {
        /// All gradients of a full batch in one direction, and the noise: the longest honest vector.
        #[test]
        fn honest_vectors_are_within_the_bound(
            (seed, length) in (any::<u64>(), 1_usize..400),
            (clip, noise, rate) in (0.01_f64..100.0, 0.1_f64..10.0, 0.01_f64..1.0),
        ) {
            let spec = spec(clip, noise, rate);
            let dataset = sized(1000);
            let bound = spec.most_norm(&dataset, &series(length as u64, Precision::F32)).unwrap();
            let expected = rate * 1000.0;
            let mut vector: Vec<f64> = normal(seed, length).iter().map(|value| value * noise * clip / expected).collect();
            // A batch three deviations above its mean.
            vector[0] += clip * (expected + 3.0 * expected.sqrt()) / expected;
            let norm = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
            prop_assert!(norm <= bound, "{norm} is beyond {bound}");
        }

        #[test]
        fn bound_grows_with_clip_noise_and_length(
            (clip, noise, rate) in (0.01_f64..100.0, 0.1_f64..10.0, 0.01_f64..0.5), length in 1_u64..100_000,
        ) {
            let bound = |clip: f64, noise: f64, length: u64| {
                spec(clip, noise, rate).most_norm(&sized(1000), &series(length, Precision::F32)).unwrap()
            };
            let own = bound(clip, noise, length);
            prop_assert!(own > 0.0);
            prop_assert!(bound(2.0 * clip, noise, length) > own);
            prop_assert!(bound(clip, 2.0 * noise, length) > own);
            prop_assert!(bound(clip, noise, 2 * length) > own);
        }
    }

    #[test]
    fn bound_of_many_numbers_is_near_the_noise() {
        let spec = spec(1.0, 1.0, 0.1);
        let length = 1_000_000;
        let bound = spec.most_norm(&sized(10_000), &series(length, Precision::F32)).unwrap();
        let noise = (length as f64).sqrt() / 1000.0;
        assert!(bound < 4.0 * noise, "{bound} of {noise}");
    }

    #[test]
    fn updates_are_bounded_for_each_optimizer() {
        let optimizers = [
            Optimizer::Sgd { learning_rate: 0.5, momentum: 0.9 },
            Optimizer::Adam { learning_rate: 0.01 },
            Optimizer::DpAdam { learning_rate: 0.01 },
        ];
        let dataset = sized(1000);
        for optimizer in optimizers {
            let mut spec = spec(1.0, 1.0, 0.1);
            let rounds = spec.private.as_mut().unwrap();
            (rounds.optimizer, rounds.local_steps) = (optimizer, 10);
            let bound = spec.most_norm(&dataset, &series(1000, Precision::F32)).unwrap();
            spec.private.as_mut().unwrap().local_steps = 20;
            let longer = spec.most_norm(&dataset, &series(1000, Precision::F32)).unwrap();
            assert!(
                bound.is_finite() && longer > 1.9 * bound && longer < 2.2 * bound,
                "{optimizer:?}: {bound}, {longer}"
            );
            // Ten steps of the noise alone, all in one direction.
            let rate = optimizer.learning_rate();
            assert!(bound > 10.0 * rate * 1000_f64.sqrt() / 100.0, "{optimizer:?}: {bound}");
        }
    }

    /// Steps of Adam along exact gradients of any size, in any order of signs.
    #[test]
    fn exact_updates_of_adam_are_within_their_bound() {
        let mut spec = spec(1.0, 1.0, 0.1);
        spec.participants.iter_mut().for_each(|party| party.noise = None);
        let (rate, steps, length) = (0.01, 40, 16_usize);
        let rounds = spec.private.as_mut().unwrap();
        (rounds.optimizer, rounds.local_steps) = (Optimizer::Adam { learning_rate: rate }, steps);
        spec.open = spec.private;
        let dataset = Dataset { visibility: Visibility::Open, ..sized(1000) };
        for name in ["private", "open"] {
            let own_series = RoundSeries { name: name.to_owned(), ..series(length as u64, Precision::F32) };
            let bound = spec.most_norm(&dataset, &own_series).unwrap();
            let mut longest = 0.0_f64;
            for seed in 0..50_u32 {
                let draws = normal(seed.into(), length * steps as usize);
                let (mut first, mut second, mut change) = ([0.0; 16], [0.0; 16], [0.0; 16]);
                for (number, gradients) in (1_i32..).zip(draws.chunks(length)) {
                    let is_large = number.unsigned_abs().wrapping_add(seed).is_multiple_of(20);
                    for (place, draw) in gradients.iter().enumerate() {
                        // One step in twenty is a million times larger.
                        let gradient = if is_large { draw * 1e6 } else { *draw };
                        first[place] = 0.9_f64.mul_add(first[place], 0.1 * gradient);
                        second[place] = 0.999_f64.mul_add(second[place], 0.001 * gradient * gradient);
                        let mean = first[place] / (1.0 - 0.9_f64.powi(number));
                        let square = second[place] / (1.0 - 0.999_f64.powi(number));
                        change[place] -= rate * mean / (square.sqrt() + 1e-8);
                    }
                }
                longest = longest.max(change.iter().map(|value| value * value).sum::<f64>().sqrt());
            }
            assert!(longest > 0.0 && longest <= bound, "{name}: {longest} is beyond {bound}");
        }
    }

    #[test]
    fn vectors_without_noise_or_length_have_no_bound() {
        let dataset = sized(1000);
        let own = spec(1.0, 1.0, 0.1);
        let own_series = series(10, Precision::Int8);
        assert!(own.most_norm(&dataset, &own_series).is_some());
        assert_eq!(own.most_norm(&dataset, &RoundSeries { name: "open".to_owned(), ..own_series.clone() }), None);
        assert_eq!(own.most_norm(&dataset, &RoundSeries { length: None, ..own_series.clone() }), None);
        let mut exact = own;
        exact.participants.iter_mut().for_each(|party| party.noise = None);
        let public = Dataset { visibility: Visibility::Public, ..dataset };
        assert_eq!(exact.most_norm(&public, &own_series), None);
    }
}
