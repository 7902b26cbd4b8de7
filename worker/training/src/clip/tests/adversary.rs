//! Gradients made to break the bound: NaN and infinite values, values of any size, and false norms.

use proptest::prelude::*;

use super::{batch, clip, norm_in_steps};
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::clip::mode::ClipMode;
use crate::layers::{Gradient, GradientPiece, GradientSink, Layout, MatrixBlock};
use crate::per_unit::PerUnit;

const MODES: [ClipMode; 3] = [ClipMode::Flat, ClipMode::PerLayer, ClipMode::Automatic];
const PARTS: [usize; 3] = [5, 1, 9];

/// Gradients by unit with arbitrary claimed norms.
struct FalseNorms {
    gradients: Vec<Vec<f32>>,
    claims: Vec<f64>,
}

impl GradientPiece for FalseNorms {
    fn parameters(&self) -> usize {
        self.gradients.first().map_or(0, Vec::len)
    }

    fn squared_norms(&self, _layout: &Layout) -> Vec<f64> {
        self.claims.clone()
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn stream(&self, _layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        let fill = |unit: usize, block: &MatrixBlock, target: &mut [f32]| {
            target.copy_from_slice(&self.gradients[unit][block.columns.clone()]);
            true
        };
        sink.matrix(at, [1, self.parameters()], [1, 4], &fill);
    }

    fn add_to(&self, _target: &mut [f32]) {}
}

/// Returns the sum of `units`, where each part claims the squared norm in `claims`.
fn sum_with_claims(units: &[Vec<f32>], claims: &[f64], clip: Clip) -> Vec<i64> {
    let mut gradient = Gradient::new();
    let mut start = 0;
    for (index, length) in PARTS.iter().enumerate() {
        let gradients = units.iter().map(|unit| unit[start..start + length].to_vec()).collect();
        gradient.push(
            index.to_string(),
            vec![Box::new(FalseNorms { gradients, claims: claims.to_vec() }) as Box<dyn GradientPiece>],
        );
        start += length;
    }
    let mut sum = ClippedSum::begin_parts(&batch(), clip, &PARTS);
    sum.add_group(&gradient, &Layout::new(units.iter().map(|_| [])));
    sum.sum
}

/// Returns the sum of `units` by their true norms.
fn sum_with_norms(units: &[Vec<f32>], clip: Clip) -> Vec<i64> {
    let mut sum = ClippedSum::begin_parts(&batch(), clip, &PARTS);
    sum.add(PerUnit::new(units.concat(), 15));
    sum.sum
}

fn is_within(sum: &[i64], clip: &Clip) -> bool {
    let whole = norm_in_steps(sum) <= u128::from(clip.radius()).pow(2);
    let share = u128::from((clip.radius() * clip.radius() / 3).isqrt()).pow(2);
    let parts = [&sum[..5], &sum[5..6], &sum[6..]];
    whole && (clip.mode() != ClipMode::PerLayer || parts.iter().all(|part| norm_in_steps(part) <= share))
}

fn adversarial() -> impl Strategy<Value = f32> {
    prop_oneof![
        3 => -2.0_f32..2.0,
        1 => prop::sample::select(vec![
            0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, -1e-40, 1e30,
        ]),
        1 => any::<u32>().prop_map(f32::from_bits),
    ]
}

fn sizes() -> impl Strategy<Value = Vec<f32>> {
    // One scale for a whole unit: all of its values are huge, or all are tiny.
    (prop::collection::vec(-1.0_f32..1.0, 15), -44_i32..38).prop_map(|(values, power)| {
        values.into_iter().map(|value| (f64::from(value) * 10_f64.powi(power)) as f32).collect()
    })
}

proptest! {
    #[test]
    fn no_gradient_adds_more_than_the_radius(
        unit in prop_oneof![prop::collection::vec(adversarial(), 15), sizes()],
        claim in prop_oneof![Just(0.0_f64), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY), 0.0..1e3, Just(1e300)],
        bound in 1e-3_f64..1e3,
        z in 0.01_f64..10.0,
    ) {
        for mode in MODES {
            let clip = clip(bound, z).with_mode(mode);
            prop_assert!(is_within(&sum_with_norms(std::slice::from_ref(&unit), clip), &clip), "{mode:?}");
            prop_assert!(is_within(&sum_with_claims(std::slice::from_ref(&unit), &[claim; 1], clip), &clip), "{mode:?}, claiming {claim}");
        }
    }

    #[test]
    fn subtraction_leaves_exactly_the_other_units(
        others in prop::collection::vec(prop::collection::vec(-2.0_f32..2.0, 15), 1..4),
        unit in prop_oneof![prop::collection::vec(adversarial(), 15), sizes()],
        bound in 1e-2_f64..1e2,
    ) {
        for mode in MODES {
            let clip = clip(bound, 1.0).with_mode(mode);
            let truth = |unit: &[f32]| unit.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            let mut claims: Vec<f64> = others.iter().map(|unit| truth(unit)).collect();
            let without = sum_with_claims(&others, &claims, clip);
            // The unit claims norm zero, so it is added whole, exceeds the radius, and is subtracted.
            let mut units = others.clone();
            units.insert(1, unit.clone());
            claims.insert(1, 0.0);
            let with = sum_with_claims(&units, &claims, clip);
            let own = sum_with_claims(std::slice::from_ref(&unit), &[0.0], clip);
            let difference: Vec<i64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
            prop_assert_eq!(&difference, &own, "{:?}", mode);
            prop_assert!(is_within(&difference, &clip));
        }
    }
}

#[test]
fn gradient_with_nan_in_one_part_counts_as_zero() {
    for mode in MODES {
        let clip = clip(1.0, 1.0).with_mode(mode);
        let good: Vec<f32> = (0..15).map(|n| n as f32 / 20.0).collect();
        for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut bad = good.clone();
            bad[5] = broken;
            assert_eq!(
                sum_with_norms(&[bad, good.clone()], clip),
                sum_with_norms(std::slice::from_ref(&good), clip),
                "{mode:?}"
            );
        }
    }
}

#[test]
fn unit_above_the_radius_is_scaled_to_it() {
    let unit: Vec<f32> = (0..15).map(|n| n as f32 - 7.5).collect();
    for mode in MODES {
        let clip = clip(0.5, 1.0).with_mode(mode);
        let norm =
            (norm_in_steps(&sum_with_claims(std::slice::from_ref(&unit), &[1e-6], clip)) as f64).sqrt() * clip.step();
        assert!(norm <= 0.5 && norm > 0.49, "{mode:?}: {norm}");
    }
}

#[test]
fn infinite_gradient_with_finite_norm_leaves_no_trace() {
    let good: Vec<f32> = (0..15).map(|n| n as f32 / 20.0).collect();
    let infinite = vec![f32::INFINITY; 15];
    for mode in MODES {
        let clip = clip(1.0, 1.0).with_mode(mode);
        assert_eq!(
            sum_with_claims(&[infinite.clone(), good.clone()], &[1.0, 1.0], clip),
            sum_with_claims(std::slice::from_ref(&good), &[1.0], clip)
        );
    }
}

#[test]
fn automatic_clipping_gives_units_nearly_equal_norms() {
    for size in [1.0_f32, 1e3] {
        let clip = clip(1.0, 1.0).with_mode(ClipMode::Automatic);
        let unit: Vec<f32> = vec![size; 15];
        let norm = (norm_in_steps(&sum_with_norms(&[unit], clip)) as f64).sqrt() * clip.step();
        let expected = f64::from(size) * 15_f64.sqrt();
        assert!((norm - expected / (expected + 0.01)).abs() < 1e-4, "{norm}");
    }
}

#[test]
fn each_part_is_cut_to_its_own_share() {
    let clip = clip(1.0, 1.0).with_mode(ClipMode::PerLayer);
    // The first part is long, the second short, the third long.
    let unit: Vec<f32> = [vec![3.0; 5], vec![0.25], vec![-8.0; 9]].concat();
    let sum = sum_with_norms(&[unit], clip);
    let norm = |part: &[i64]| (norm_in_steps(part) as f64).sqrt() * clip.step();
    let share = 1.0 / 3.0_f64.sqrt();
    assert!((norm(&sum[..5]) - share).abs() < 1e-4 && (norm(&sum[6..]) - share).abs() < 1e-4);
    assert!((sum[5] as f64 * clip.step() - 0.25).abs() <= clip.step());
}
