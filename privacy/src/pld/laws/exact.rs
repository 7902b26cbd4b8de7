//! Tight numbers against plain quadrature of the definition, which shares no formula with them.

use libm::exp;
use proptest::prelude::*;

use super::{Epsilon, Pair, Plan};

/// Both densities of a pair on the line, whose likelihood ratio rises with x; their support, and their least width.
struct PairDensities {
    p: Box<dyn Fn(f64) -> f64>,
    q: Box<dyn Fn(f64) -> f64>,
    ends: (f64, f64),
}

fn normal(z: f64, mean: f64, x: f64) -> f64 {
    exp(-0.5 * ((x - mean) / z) * ((x - mean) / z)) / (z * (2.0 * std::f64::consts::PI).sqrt())
}

impl PairDensities {
    /// Makes the densities for one more unit, sampled; or for the reverse, mirrored so that the ratio rises.
    fn sampled(rate: f64, z: f64, add: bool) -> Self {
        let mixed = move |x: f64| (1.0 - rate) * normal(z, 0.0, x) + rate * normal(z, 1.0, x);
        let ends = (-12.0 * z - 1.0, 12.0 * z + 1.0);
        if add {
            Self { p: Box::new(move |x| normal(z, 0.0, x)), q: Box::new(move |x| mixed(-x)), ends }
        } else {
            Self { p: Box::new(mixed), q: Box::new(move |x| normal(z, 0.0, x)), ends }
        }
    }

    fn replaced(rate: f64, z: f64) -> Self {
        let mixed = move |x: f64| (1.0 - rate) * normal(z, 0.0, x) + rate * normal(z, 1.0, x);
        Self { p: Box::new(mixed), q: Box::new(move |x| mixed(-x)), ends: (-12.0 * z - 1.0, 12.0 * z + 1.0) }
    }

    /// Makes the densities for several more units, each sampled; or for the reverse, mirrored.
    fn grouped(weights: Vec<f64>, z: f64, add: bool) -> Self {
        let reach = 12.0 * z + weights.len() as f64;
        let mixed =
            move |x: f64| weights.iter().enumerate().map(|(k, weight)| weight * normal(z, k as f64, x)).sum::<f64>();
        let ends = (-reach, reach);
        if add {
            Self { p: Box::new(move |x| normal(z, 0.0, x)), q: Box::new(move |x| mixed(-x)), ends }
        } else {
            Self { p: Box::new(mixed), q: Box::new(move |x| normal(z, 0.0, x)), ends }
        }
    }

    /// Returns δ(ε) = ∫ max(P − e^ε Q, 0), from the point where the integrand leaves 0 to the right; bisection finds
    /// this point.
    fn delta(&self, epsilon: f64) -> f64 {
        let above = |x: f64| (self.p)(x) - exp(epsilon) * (self.q)(x);
        let (mut low, mut high) = self.ends;
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if above(middle) > 0.0 { high = middle } else { low = middle }
        }
        simpson(high, self.ends.1, above)
    }

    fn loss(&self, x: f64) -> f64 {
        libm::log((self.p)(x) / (self.q)(x))
    }
}

fn simpson(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let half = 4000;
    let step = (to - from) / f64::from(2 * half);
    let weight = |i: i32| if i == 0 || i == 2 * half { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
    (0..=2 * half).map(|i| weight(i) * f(from + step * f64::from(i))).sum::<f64>() * step / 3.0
}

fn delta(plan: &Plan, epsilon: f64) -> f64 {
    plan.delta(Epsilon::new(epsilon).expect("in range")).expect("a grid")
}

/// Returns δ(ε) of two sampled releases [q, z], by the accountant and exactly.
fn two_steps([q, z]: [f64; 2], [other_q, other_z]: [f64; 2], epsilon: f64) -> (f64, f64) {
    let mut plan = Plan::new();
    plan.add_pair(Pair::sampled_gaussian(q, z), 1);
    plan.add_pair(Pair::sampled_gaussian(other_q, other_z), 1);
    // E over the first outcome of the second step's exact profile at the remaining ε. The law of one step checks the
    // second step's formula.
    let second = Pair::sampled_gaussian(other_q, other_z);
    let first = |add: bool| {
        let densities = PairDensities::sampled(q, z, add);
        let profile = &second.directions[usize::from(add)];
        let integrand = |x: f64| (densities.p)(x) * profile.profile(epsilon - densities.loss(x));
        simpson(densities.ends.0, densities.ends.1, integrand)
    };
    (delta(&plan, epsilon), first(false).max(first(true)))
}

/// Training draws discrete noise. Its hockey sticks are the trapezoid sums of the continuous ones, whose kink they meet
/// within a step: δ differs by a part that falls with the square of the noise in steps, of which the worker's grid has
/// at least 2²⁰.
#[test]
fn discrete_profile_matches_continuous_to_second_order() {
    for (q, s) in [(1.0, 16_i32), (1.0, 64), (0.1, 32), (0.1, 128)] {
        let deviation = f64::from(s);
        let weight = |x: i32| exp(-0.5 * (f64::from(x) / deviation) * (f64::from(x) / deviation));
        let all: f64 = (-14 * s..=15 * s).map(weight).sum();
        let outcomes: Vec<(f64, f64)> =
            (-12 * s..=13 * s).map(|x| (((1.0 - q) * weight(x) + q * weight(x - s)) / all, weight(x) / all)).collect();
        let mut discrete = Plan::new();
        let mut continuous = Plan::new();
        discrete.add_pair(Pair::finite(&outcomes), 1);
        continuous.add_pair(Pair::sampled_gaussian(q, 1.0), 1);
        for epsilon in [0.1, 1.0, 2.0, 3.0] {
            let got = delta(&discrete, epsilon);
            let exact = delta(&continuous, epsilon);
            let apart = (got / exact - 1.0).abs() * deviation * deviation;
            assert!(apart < 3.0, "{q} {s} {epsilon}: {got:e} {exact:e}, {apart} squared steps");
        }
    }
}

/// Two releases for a group; adding the group could in principle cost more than removing it, so the plan returns the
/// larger.
#[test]
fn two_group_steps_take_the_larger_direction() {
    for (q, z, size) in [(0.1_f64, 1.5_f64, 3_u32), (0.5, 3.0, 4), (0.02, 0.9, 6)] {
        let weight = |k: u32| {
            let ways: f64 = (0..k).map(|i| f64::from(size - i) / f64::from(i + 1)).product();
            ways * q.powf(f64::from(k)) * (1.0 - q).powf(f64::from(size - k))
        };
        let weights: Vec<f64> = (0..=size).map(weight).collect();
        let pair = Pair::sampled_gaussian_group(q, z, size);
        let mut plan = Plan::new();
        plan.add_pair(pair.clone(), 2);
        for epsilon in [0.1, 0.8, 2.0] {
            let exact = [false, true].map(|add| {
                let densities = PairDensities::grouped(weights.clone(), z, add);
                let profile = &pair.directions[usize::from(add)];
                let integrand = |x: f64| (densities.p)(x) * profile.profile(epsilon - densities.loss(x));
                simpson(densities.ends.0, densities.ends.1, integrand)
            });
            let got = delta(&plan, epsilon);
            let larger = exact[0].max(exact[1]);
            assert!(got >= larger * (1.0 - 1e-6) - 1e-14, "{q} {z} {size} {epsilon}: {got:e} {exact:?}");
            assert!(got <= larger * 1.01 + 1e-12, "{q} {z} {size} {epsilon}: {got:e} {exact:?}");
        }
    }
}

/// In a direction with nearly no mass above ε, the exponents of a block overflowed under a strong tilt.
#[test]
fn strong_tilt_on_coarse_grid_does_not_overflow() {
    let [q, z] = [exp(-1.743_297_664_122_239_3), exp(-0.320_693_265_383_090_56)];
    let (got, exact) = two_steps([q, z], [0.721_057_376_746_006_7, 1.358_432_396_620_658_8], 1.484_183_695_547_049);
    assert!(got >= exact * (1.0 - 1e-7) && got <= exact * 1.01, "{got:e} {exact:e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn one_step_matches_its_integral(
        ln_q in -5.0f64..-0.01, ln_z in -0.9f64..1.8, epsilon in 0.0f64..3.0, replaced: bool
    ) {
        let q = exp(ln_q);
        let z = exp(ln_z);
        let mut plan = Plan::new();
        let exact = if replaced {
            plan.add_pair(Pair::sampled_gaussian_replacing(q, z), 1);
            PairDensities::replaced(q, z).delta(epsilon)
        } else {
            plan.add_pair(Pair::sampled_gaussian(q, z), 1);
            let remove = PairDensities::sampled(q, z, false).delta(epsilon);
            let add = PairDensities::sampled(q, z, true).delta(epsilon);
            prop_assert!(remove >= add - 1e-15, "adding costs more than removing: {remove:e} {add:e}");
            remove.max(add)
        };
        let got = delta(&plan, epsilon);
        prop_assert!(got >= exact * (1.0 - 1e-9) - 1e-16, "{got:e} {exact:e}");
        prop_assert!(got <= exact * (1.0 + 1e-6) + 1e-15, "{got:e} {exact:e}");
    }

    #[test]
    fn two_steps_bound_exact_composition_closely(
        ln_q in -4.0f64..-0.1, ln_z in -0.5f64..1.2, other_q in 0.05f64..1.0, other_z in 0.7f64..3.0, epsilon in 0.0f64..2.0
    ) {
        let (got, exact) = two_steps([exp(ln_q), exp(ln_z)], [other_q, other_z], epsilon);
        // Simpson's rule is good to eight digits here.
        prop_assert!(got >= exact * (1.0 - 1e-7) - 1e-15, "{got:e} {exact:e}");
        prop_assert!(got <= exact * 1.01 + 1e-9, "{got:e} {exact:e}");
    }
}
