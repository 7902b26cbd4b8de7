#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::num::NonZeroU32;

use undertone_privacy::correlated::{BandedEncoder, WEIGHT_BITS};
use undertone_privacy::{Event, NoiseMultiplier, SamplingRate};
use undertone_worker_site::clearance::{Clearance, ReleaseGrant};

use super::CorrelatedNoise;
use crate::clip::{Clip, ClippedSum};
use crate::noise::DiscreteGaussian;
use crate::per_unit::PerUnit;
use crate::randomness::{Purpose, Randomness};
use crate::release::ReleaseError;
use crate::sampler::Sampler;
use crate::vector::STRIDE;

fn whole(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

fn clip() -> Clip {
    Clip::new(1.0, NoiseMultiplier::new(1.5).unwrap()).unwrap()
}

fn noise(bands: u32, steps: u32, length: usize) -> CorrelatedNoise {
    CorrelatedNoise::new(clip(), whole(bands), whole(steps), length).unwrap()
}

fn seed(step: u32) -> Randomness {
    Randomness::in_test(Purpose::CorrelatedNoise, step as u8)
}

/// Returns z of a step: the independent part alone.
fn independent(step: u32, deviation: u64, length: usize) -> Vec<i64> {
    let gaussian = DiscreteGaussian::integer(deviation);
    let strides = (0..length).collect::<Vec<_>>();
    let strides = strides.chunks(STRIDE).enumerate().flat_map(|(index, stride)| {
        let mut rng = seed(step).stream(index as u32);
        stride.iter().map(|_| gaussian.sample(&mut rng)).collect::<Vec<_>>()
    });
    strides.collect()
}

fn draw(noise: &mut CorrelatedNoise, step: u32) -> Vec<i64> {
    noise.draw(step, &seed(step)).values.to_vec()
}

/// C y, row by row, is z: the difference is the rounding, at most half a step of the grid.
#[test]
fn noise_is_the_inverse_encoder_times_independent_noise() {
    let (bands, steps, length) = (4, 12, STRIDE + 300);
    let mut noise = noise(bands, steps, length);
    let encoder = BandedEncoder::best(whole(bands), whole(steps));
    let all: Vec<Vec<i64>> = (1..=steps).map(|step| draw(&mut noise, step)).collect();
    let unit = 1_i128 << WEIGHT_BITS;
    for (row, step) in (1..=steps).enumerate() {
        let z = independent(step, noise.deviation(), length);
        for coordinate in 0..length {
            let earlier = encoder.weights().iter().zip((0..row).rev());
            let sum: i128 = earlier.map(|(w, r)| i128::from(*w) * i128::from(all[r][coordinate])).sum();
            let difference = unit * i128::from(all[row][coordinate] - z[coordinate]) + sum;
            assert!(difference.abs() <= unit / 2, "{step} {coordinate}");
        }
    }
}

#[test]
fn repeated_draws_from_the_same_seeds_are_the_same_noise() {
    let mut first = noise(3, 9, 500);
    let all: Vec<Vec<i64>> = (1..=9).map(|step| draw(&mut first, step)).collect();
    // A crash after each step: the noise is drawn again from the first step on, and a step twice.
    for stop in 1..=9 {
        let mut again = noise(3, 9, 500);
        (1..stop).for_each(|step| drop(draw(&mut again, step)));
        let other = again.draw(stop, &Randomness::in_test(Purpose::CorrelatedNoise, 99)).values.to_vec();
        assert_ne!(other, all[stop as usize - 1]);
        assert_eq!(draw(&mut again, stop), all[stop as usize - 1]);
    }
}

#[test]
fn step_without_a_release_adds_nothing_to_later_steps() {
    let mut gaps = noise(3, 9, 200);
    (1..=2).for_each(|step| drop(draw(&mut gaps, step)));
    // Steps 3 and 4 are missed: with 3 bands nothing of the first two remains.
    assert_eq!(draw(&mut gaps, 5), independent(5, gaps.deviation(), 200));
    let mut whole_run = noise(3, 9, 200);
    (1..=4).for_each(|step| drop(draw(&mut whole_run, step)));
    assert_ne!(draw(&mut whole_run, 5), independent(5, gaps.deviation(), 200));
}

/// Returns the mean product of two steps' noises over all coordinates, relative to the variance of the independent part.
fn covariance(one: &[i64], other: &[i64], deviation: u64) -> f64 {
    let sum: f64 = one.iter().zip(other).map(|(one, other)| *one as f64 * *other as f64).sum();
    sum / one.len() as f64 / (deviation as f64).powi(2)
}

/// 200,000 coordinates: a mean product has a standard error of at most about 0.005.
#[test]
fn covariance_of_steps_is_that_of_the_inverse_encoder() {
    let (bands, steps, length) = (4, 6, 200_000);
    let mut noise = noise(bands, steps, length);
    let all: Vec<Vec<i64>> = (1..=steps).map(|step| draw(&mut noise, step)).collect();
    let encoder = BandedEncoder::best(whole(bands), whole(steps));
    // The first column of C⁻¹.
    let unit = f64::from(1_u32 << WEIGHT_BITS);
    let mut inverse = vec![1.0_f64];
    for row in 1..steps as usize {
        let terms = encoder.weights().iter().enumerate().filter(|(k, _)| *k < row);
        inverse.push(-terms.map(|(k, weight)| *weight as f64 / unit * inverse[row - 1 - k]).sum::<f64>());
    }
    for one in 0..steps as usize {
        for other in 0..=one {
            let expected: f64 = (0..=other).map(|s| inverse[one - s] * inverse[other - s]).sum();
            let measured = covariance(&all[one], &all[other], noise.deviation());
            assert!((measured - expected).abs() < 0.025, "{one} {other}: {measured} and {expected}");
        }
        let measured = covariance(&all[one], &all[one], noise.deviation()).sqrt();
        assert!((measured - encoder.step_deviation(one as u32 + 1)).abs() < 0.025, "{measured}");
    }
}

#[test]
fn deviation_covers_the_column_norm_and_the_rounding() {
    let encoder = BandedEncoder::best(whole(8), whole(100));
    for length in [1, 1000, 1_000_000] {
        let deviation = noise(8, 100, length).deviation() as f64;
        let radius = clip().radius() as f64;
        let least = 1.5 * (encoder.column_norm() * radius + (7.0 * length as f64).sqrt());
        assert!(deviation >= least && deviation < least * 1.00001, "{deviation} {least}");
    }
    let loud = Clip::new(1.0, NoiseMultiplier::new(1024.0).unwrap()).unwrap();
    let refused = CorrelatedNoise::new(loud, whole(8), whole(100), 1_000_000_000).map(|_| ());
    assert!(refused.is_ok() || matches!(refused, Err(ReleaseError::CorrelatedNoise(_))));
}

fn rate() -> SamplingRate {
    SamplingRate::new(0.25).unwrap()
}

fn sum(length: usize) -> ClippedSum {
    let batch = Sampler::new(1, rate()).draw(&Randomness::in_test(Purpose::Sampling, 1));
    let mut sum = ClippedSum::begin(&batch, clip(), length);
    let _ = sum.add(PerUnit::new(vec![0.01; length], length));
    sum
}

fn event(bands: u32, releases: u32) -> Event {
    let noise_multiplier = clip().noise_multiplier();
    Event::BandedGaussian { sampling_rate: rate(), noise_multiplier, bands: whole(bands), releases: whole(releases) }
}

fn granted(event: Event) -> Clearance {
    Clearance::Granted(ReleaseGrant::in_test(event))
}

#[test]
fn release_is_the_sum_with_the_noise_of_the_step() {
    let mut noise = noise(3, 9, 100);
    drop(draw(&mut noise, 1));
    let values = draw(&mut noise, 2);
    let exact = sum(100);
    let expected: Vec<f32> = exact
        .in_test()
        .iter()
        .zip(&values)
        .map(|(sum, noise)| ((sum + noise) as f64 * (clip().step() / 10.0)) as f32)
        .collect();
    let release = sum(100).release_correlated(10.0, granted(event(3, 9)), noise.draw(2, &seed(2))).unwrap();
    assert_eq!(release.vector(), expected);
    let deviation = noise.deviation() as f64 * clip().step() / 10.0;
    assert!(release.variance() > deviation * deviation);
}

#[test]
fn other_grants_steps_and_lengths_release_nothing() {
    let mut noise = noise(3, 9, 100);
    let mut release = |length: usize, event: Event, step: u32| {
        sum(length).release_correlated(10.0, granted(event), noise.draw(step, &seed(step))).map(|_| ())
    };
    assert_eq!(release(100, event(3, 9), 9), Ok(()));
    for other in [event(4, 9), event(3, 10), Event::NonPrivate] {
        assert!(matches!(release(100, other, 1), Err(ReleaseError::WrongEvent { .. })));
    }
    let single = Event::PoissonSampledGaussian { sampling_rate: rate(), noise_multiplier: clip().noise_multiplier() };
    assert!(matches!(release(100, single, 1), Err(ReleaseError::WrongEvent { .. })));
    assert_eq!(release(99, event(3, 9), 1), Err(ReleaseError::OtherNoise { step: 1 }));
    assert_eq!(release(100, event(3, 9), 10), Err(ReleaseError::OtherNoise { step: 10 }));
}
