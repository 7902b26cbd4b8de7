//! The discrete Gaussian, alone, under Poisson sampling, and as a sum of many parties' noise.
//!
//! Values are rounded toward zero onto a grid γ (the norm cannot grow), summed as integers, and noise N_ℤ(0, (σ/γ)²) is
//! added. Alone its curve is that of the Gaussian (Canonne, Kamath and Steinke 2020): [`super::gaussian`].

use std::f64::consts::PI;

use libm::{ceil, exp, floor, log};

use super::LEAST_LOSS;
use super::sampled::{ln_convexity, ln_integer};
use crate::event::DistributedNoise;
use crate::special::softplus;

/// ρ(α) of one discrete Gaussian release of a Poisson(q) sample with noise multiplier z, for adding, removing or zeroing one
/// unit whose rounded contribution has integer coordinates. Arguments as [`super::poisson_sampled_gaussian`].
///
/// At integer orders exactly that of the continuous Gaussian: for an integer shift v and an integer k, E[(ratio of the
/// shifted to the unshifted mass)^k] = e^{k(k−1)|v|²/(2s²)}, because completing the square shifts by the integer kv. The
/// reverse direction is covered by Mironov, Talwar and Zhang's swap x ↦ v − x. Between integers three upper bounds, of which
/// the least: ln A is convex in the order with ln A_1 = 0; ln A_α ≤ ln(1 + q(e^{α(α−1)/(2z²)} − 1)), by convexity of the
/// power and because a shifted discrete Gaussian has at most the mass of the centred one; and not sampling.
pub fn poisson_sampled_discrete_gaussian(q: f64, z: f64, order: f64) -> f64 {
    if q == 0.0 && order > 1.0 && z >= 0.0 {
        return 0.0;
    }
    let valid = q > 0.0 && q <= 1.0 && z > 0.0 && order > 1.0 && order.is_finite();
    if !valid {
        return f64::INFINITY;
    }
    let gaussian = super::gaussian(z, order);
    if q >= 1.0 || gaussian.is_infinite() {
        return gaussian;
    }
    let at = |n: f64| if n < 2.0 { 0.0 } else { softplus(ln_integer(q, z, n)) };
    let ln_moment = if order.fract() == 0.0 {
        at(order)
    } else {
        let (below, above) = (floor(order), ceil(order));
        let chord = (above - order) * at(below) + (order - below) * at(above);
        chord.min(softplus(ln_convexity(q, z, order)))
    };
    (ln_moment / (order - 1.0)).clamp(LEAST_LOSS, gaussian)
}

/// Beyond this many contributors the rest of the sum in τ is replaced by its bound.
const MOST_TERMS: u32 = 100_000;

/// ρ(α) of a sum in which each of n contributors adds discrete Gaussian noise of its own (Kairouz, Liu and Steinke 2021,
/// Proposition 14): a sum of discrete Gaussians is not one, and τ bounds how far it is from one. `changes` is 1 for a
/// contribution removed or zeroed, 2 for one replaced.
///
/// With a = Δ₂/(√n s), a₁ = Δ₁/(√n s), τ = 10 Σ_{k<n} e^{−2π²s²k/(k+1)} and d coordinates: the least of αa²/2 + τd,
/// (α/2)(a² + 2a₁τ + τ²d) and (α/2)(a + √d τ)².
pub fn distributed_discrete_gaussian(noise: &DistributedNoise, changes: f64, order: f64) -> f64 {
    let (d, tau) = (f64::from(noise.dimension.get()), spread(noise));
    let deviation = noise.noise.get() * f64::from(noise.contributors.get()).sqrt();
    let l2 = sensitivity(noise);
    // An integer vector's 1-norm is at most its squared 2-norm.
    let l1 = l2 * d.sqrt().min(l2);
    let (a, a1) = (changes * l2 / deviation, changes * l1 / deviation);
    let apart = 0.5 * order * a * a + tau * d;
    let mixed = 0.5 * order * (a * a + 2.0 * a1 * tau + tau * tau * d);
    let joint = a + d.sqrt() * tau;
    apart.min(mixed).min(0.5 * order * joint * joint).max(LEAST_LOSS)
}

/// Δ₂ in steps of the grid, after stochastic rounding that is repeated until the norm is within its bound:
/// min(C + √d, √(C² + d/4 + √(2 ln(1/β)) (C + √d/2))).
pub fn sensitivity(noise: &DistributedNoise) -> f64 {
    let (clip, root) = (noise.clip.get(), f64::from(noise.dimension.get()).sqrt());
    let worst = clip + root;
    let bias = noise.rounding_bias.get();
    if bias <= 0.0 {
        return worst;
    }
    let likely = clip * clip + 0.25 * root * root + (-2.0 * log(bias)).sqrt() * (clip + 0.5 * root);
    worst.min(likely.sqrt())
}

/// τ.
pub fn spread(noise: &DistributedNoise) -> f64 {
    let scale = -2.0 * PI * PI * noise.noise.get() * noise.noise.get();
    let terms = noise.contributors.get() - 1;
    let term = |k: u32| exp(scale * f64::from(k) / (f64::from(k) + 1.0));
    let counted = terms.min(MOST_TERMS);
    // Terms fall with k.
    let rest = if terms > counted { f64::from(terms - counted) * term(counted) } else { 0.0 };
    10.0 * ((1..=counted).map(term).sum::<f64>() + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{gaussian, poisson_sampled_gaussian};
    use proptest::prelude::*;

    /// A_α by summation over the integers, for noise of `s` steps and a unit of `v` steps.
    fn moment(q: f64, s: f64, v: f64, order: f64) -> f64 {
        let reach = (40.0 * s + order * v) as i64;
        let weight = |x: f64| exp(-x * x / (2.0 * s * s));
        let all: f64 = (-reach..=reach).map(|x| weight(x as f64)).sum();
        (-reach..=reach)
            .map(|x| {
                let ratio = 1.0 - q + q * exp(v * (2.0 * x as f64 - v) / (2.0 * s * s));
                weight(x as f64) / all * ratio.powf(order)
            })
            .sum()
    }

    #[test]
    fn the_curve_is_never_below_the_sum_over_the_integers_and_is_it_at_integer_orders() {
        for (q, s, v) in [(0.1, 8.0, 8.0), (0.5, 10.0, 3.0), (0.01, 9.0, 12.0), (0.3, 8.0, 1.0)] {
            for order in [1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 7.75, 8.0] {
                let got = poisson_sampled_discrete_gaussian(q, s / v, order);
                let lost = moment(q, s, v, order).ln() / (order - 1.0);
                assert!(got >= lost - 1e-11, "{q} {s} {v} {order}: {got} {lost}");
                assert!(order.fract() != 0.0 || got <= lost + 1e-9, "{q} {s} {v} {order}: {got} {lost}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_is_the_sampled_gaussian_at_integer_orders_and_at_least_that_between(
            q in 1e-5f64..1.0, z in 0.05f64..30.0, order in 1.01f64..64.0
        ) {
            let (discrete, continuous) = (poisson_sampled_discrete_gaussian, poisson_sampled_gaussian);
            let whole = order.ceil();
            prop_assert!((discrete(q, z, whole) / continuous(q, z, whole) - 1.0).abs() < 1e-12);
            prop_assert!(discrete(q, z, order) >= continuous(q, z, order) * (1.0 - 1e-8));
            prop_assert!(discrete(q, z, order) <= gaussian(z, order));
        }
    }
}
