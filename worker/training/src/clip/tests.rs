#![expect(clippy::unwrap_used, reason = "the numbers of a test are in range")]

mod adversary;
mod device;

use proptest::prelude::*;
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::ClippedSum;
use super::grid::{Clip, ClipError};
use crate::per_unit::PerUnit;
use crate::sampler::{Batch, Sampler};
use crate::vector::STRIDE;

fn batch() -> Batch {
    Sampler::new(3, SamplingRate::ONE).draw_fresh()
}

fn clip(bound: f64, z: f64) -> Clip {
    Clip::new(bound, NoiseMultiplier::new(z).unwrap()).unwrap()
}

fn norm_in_steps(sum: &[i64]) -> u128 {
    sum.iter().map(|steps| u128::from(steps.unsigned_abs()).pow(2)).sum()
}

proptest! {
    #[test]
    fn no_unit_moves_the_sum_by_more_than_the_clip(
        values in proptest::collection::vec(-1e6_f32..1e6, 1..300),
        bound in 1e-3_f64..1e3,
        z in 0.01_f64..10.0,
    ) {
        let clip = clip(bound, z);
        let length = values.len();
        let sum = PerUnit::new(values, length).clip(&batch(), clip);
        prop_assert!(norm_in_steps(&sum.sum) <= u128::from(clip.radius()).pow(2));
        prop_assert!(clip.radius() as f64 * clip.step() <= bound);
    }

    #[test]
    fn noise_on_the_grid_is_never_less_than_charged(bound in 1e-6_f64..1e6, z in 0.001_f64..1000.0) {
        let clip = clip(bound, z);
        // s ≥ z K, in exact integers: z = m 2^-e.
        let (mantissa, exponent) = (z.to_bits() & ((1 << 52) - 1) | (1 << 52), 1075 - (z.to_bits() >> 52));
        prop_assert!(u128::from(clip.deviation()) << exponent >= u128::from(mantissa) * u128::from(clip.radius()));
        prop_assert!(clip.deviation() >= 1 << 20 && clip.radius() >= 1 << 20);
        prop_assert!(clip.deviation() < 1 << 32 && clip.radius() < 1 << 31);
        prop_assert!(clip.deviation() as f64 <= z * clip.radius() as f64 + 2.0);
    }
}

/// Noise of a batch is drawn on the grid and charged as continuous noise: `privacy::mechanism` proves by how little that is off.
#[test]
fn discrete_noise_costs_as_much_as_continuous_on_every_grid() {
    for bound in [1e-6, 1.0, 1e6] {
        for z in [1.0 / 1024.0, 1.0, 1024.0] {
            let clip = clip(bound, z);
            let excess =
                undertone_privacy::mechanism::ln_grid_excess(4e9, clip.deviation() as f64, z, 1.0 + 1.0 / 1024.0);
            assert!(excess < -14_000.0, "{bound} {z}: {excess}");
            let adaptive =
                undertone_privacy::mechanism::ln_adaptive_excess(32.0 * 4e9, clip.deviation() as f64, z, 1024.0);
            assert!(adaptive < -10_000.0, "{bound} {z}: {adaptive}");
        }
    }
}

#[test]
fn a_short_gradient_is_only_rounded_toward_zero() {
    let clip = clip(1.0, 1.0);
    let gradient = vec![0.25, -0.125, 1e-9, 0.3];
    let sum = PerUnit::new(gradient, 4).clip(&batch(), clip);
    let back: Vec<f64> = sum.sum.iter().map(|steps| *steps as f64 * clip.step()).collect();
    assert_eq!(back[..3], [0.25, -0.125, 0.0]);
    assert!(back[3] <= f64::from(0.3_f32) && back[3] > f64::from(0.3_f32) - clip.step());
}

#[test]
fn long_gradient_is_scaled_to_the_clip() {
    let clip = clip(0.5, 1.0);
    let length = 3 * STRIDE + 17;
    let gradient: Vec<f32> = (0..length).map(|n| if n % 2 == 0 { 3.0 } else { -4.0 }).collect();
    let sum = PerUnit::new(gradient, length).clip(&batch(), clip);
    let norm = (norm_in_steps(&sum.sum) as f64).sqrt() * clip.step();
    assert!(norm <= 0.5 && norm > 0.499, "{norm}");
    let ratio = sum.sum[1] as f64 / sum.sum[0] as f64;
    assert!((ratio + 4.0 / 3.0).abs() < 1e-2, "{ratio}");
}

#[test]
fn the_clip_is_over_all_coordinates_at_once() {
    let clip = clip(1.0, 1.0);
    let sum = PerUnit::new(vec![1.0, 1.0, 1.0, 1.0], 4).clip(&batch(), clip);
    let value = sum.sum[0] as f64 * clip.step();
    assert!((value - 0.5).abs() < 1e-5, "each of four equal coordinates gets half the clip, not all of it: {value}");
}

#[test]
fn unit_with_nan_counts_as_zero() {
    let clip = clip(1.0, 1.0);
    for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let with = PerUnit::new(vec![0.5, 0.25, broken, 0.0], 2).clip(&batch(), clip);
        let without = PerUnit::new(vec![0.5, 0.25], 2).clip(&batch(), clip);
        assert_eq!(with.sum, without.sum);
    }
}

#[test]
fn micro_batches_and_order_change_nothing() {
    let clip = clip(0.7, 0.3);
    let units: Vec<f32> = (0..90).map(|n| ((n * 37 % 101) as f32 - 50.0) / 40.0).collect();
    let whole = PerUnit::new(units.clone(), 3).clip(&batch(), clip);
    let mut parts = ClippedSum::begin(&batch(), clip, 3);
    for unit in units.chunks(3).rev() {
        parts.add(PerUnit::new(unit.to_vec(), 3));
    }
    assert_eq!(whole.sum, parts.sum);
}

#[test]
fn invalid_clip_is_refused() {
    let z = NoiseMultiplier::new(1.0).unwrap();
    for bound in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e6] {
        assert!(matches!(Clip::new(bound, z), Err(ClipError::Bound(_))), "{bound}");
    }
    assert_eq!(Clip::new(1.0, NoiseMultiplier::new(1e-4).unwrap()), Err(ClipError::Noise(1e-4)));
}
