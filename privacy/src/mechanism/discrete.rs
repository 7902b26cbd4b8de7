//! The discrete Gaussian, alone and under Poisson sampling. `distributed.rs` has sums of several parties' noise.
//!
//! Values are rounded toward zero onto a grid γ (the norm cannot grow), summed as integers, and noise N_ℤ(0, (σ/γ)²) is
//! added. Alone its curve is that of the Gaussian (Canonne, Kamath and Steinke 2020): [`super::gaussian`].
//!
//! # Discrete noise may be charged as continuous noise
//!
//! Training releases draw discrete noise and charge [`super::poisson_sampled_gaussian`], at fractional orders too.
//!
//! *Lemma.* Let each coordinate of the noise be N_ℤ(0, s²), let v ∈ ℤᵈ be the unit's rounded contribution with |v| ≤ s/z, and
//! let A be the moment E[(1 − q + q·ratio)^α], α > 1, of the discrete or the continuous mechanism. Then
//! `ln A_discrete ≤ ln A_continuous + 2d/(e^κ − 1)` with `κ = (3/2) π² s z`: [`ln_grid_excess`].
//!
//! *Proof.* Exchange the coordinates' noise one by one. With all others fixed, a coordinate with vᵢ = w enters as
//! f(x) = e^{−x²/(2s²)} (b + a e^{(2xw − w²)/(2s²)})^α, where b = 1 − q and a ≥ 0 collects q and the other ratios. For w = 0 the
//! power is constant and the sum over ℤ, divided by its normalizer, is the mean: nothing changes. For |w| ≥ 1, Poisson
//! summation gives Σ_{k∈ℤ} f(k) = Σ_{m∈ℤ} f̂(m), and f̂(0) is the continuous integral. For y with |y w| < π s² the function is
//! analytic in the strip up to height y (the base has its zeros at height π s²/|w|), and at height y the base is at most its
//! value on the real line, while |e^{−(x − iy)²/(2s²)}| = e^{−x²/(2s²)} e^{y²/(2s²)}. Shifting the contour to y → π s²/|w|, on the
//! side of m's sign, gives |f̂(m)| ≤ f̂(0) e^{−2π²s²(|m|/|w| − 1/(4w²))} ≤ f̂(0) e^{−(3/2)π²s²|m|/|w|}, since 1/(4w²) ≤ |m|/(4|w|).
//! With s²/|w| ≥ s z the terms m ≠ 0 come to at most f̂(0)·2/(e^κ − 1). The discrete normalizer Σ e^{−k²/(2s²)} is at least the
//! continuous one, by the same summation, which only helps. So each coordinate multiplies A by at most 1 + 2/(e^κ − 1), for
//! every a, b ≥ 0, and hence under the mean over the other coordinates. The continuous moment depends on v through |v| alone
//! and grows with it. ∎
//!
//! The reverse direction is dominated by this one for discrete noise as for continuous noise: x ↦ v − x maps ℤᵈ onto itself and
//! exchanges the two laws, which is all that Mironov, Talwar and Zhang's Theorem 5 needs.
//!
//! # Shifts that depend on earlier coordinates
//!
//! Correlated noise (`crate::correlated`) shifts a coordinate by an integer that depends on the coordinates before it.
//!
//! *Lemma.* Let the coordinates of d be revealed one after another. Coordinate i is N_ℤ(0, s²), or, with the unit, N_ℤ(wᵢ, s²) for an
//! integer wᵢ that is a function of the coordinates before it, and always Σ wᵢ² ≤ (s/z)². Let φ(x) be (1 − q + q x)^α or
//! (1 − q + q x)^(1−α), α > 1, L the ratio of the law with the unit to that without, and A the mean of φ(L) without the unit: the moment
//! of order α of the one direction or of the reverse. With κ > 0, `ln A ≤ ln A_continuous + 2d/(e^κ − 1)` with A_continuous that of one
//! continuous release with noise multiplier z, in the same direction, for `κ = (10/9) π² s z − (α − 1) ln 2`: [`ln_adaptive_excess`].
//!
//! *Proof.* Let G(x, B) be the mean of φ(x e^{√B N − B/2}) over a standard normal N, for a budget B ≥ 0 in units of s². As φ is convex,
//! G(x, 0) ≤ G(x, B), and G grows with B. For real w the mean of G(x e^{(2uw − w²)/(2s²)}, B − w²/s²) over u ~ N(0, s²) is G(x, B),
//! since independent normals add. Let u be discrete instead and w ≠ 0. As above, Poisson summation leaves the integrals of this function
//! f of u, times the density, at heights y = ±(2/3) π s²/|w|. There x turns by the angle θ = ±2π/3, and |b + a e^{iθ}| is at most a + b and at
//! least (a + b) cos(θ/2) = (a + b)/2 for a, b ≥ 0. So |f| is at most its value on the real line, times 2^(α−1) for the reverse direction,
//! also under the mean of G. With y²/(2s²) = (2/9) π² s²/w² the term m ≠ 0 is at most the continuous mean times
//! 2^(α−1) e^{−(4/3 − 2/9) π² s² |m|/|w|} ≤ e^{−κ|m|}, since |w| ≤ s/z and w² ≥ |w|. So the mean of f over discrete u is at most
//! (1 + 2/(e^κ − 1)) G(x, B). Hence G(L, remaining budget) grows in mean by this factor a coordinate at most, from G(1, 1/z²) = A_continuous
//! at the start, and it is at least φ(L) at the end. ∎
//!
//! The continuous moment of the reverse direction is at most that of the other one (Mironov, Talwar and Zhang, Theorem 5), which is
//! charged.
//!
//! # The grid of the worker
//!
//! The worker's grid has s ≥ 2²⁰ and z ≥ 2⁻¹⁰ (`dp::clip`), so κ > 15 000: the excess is below e^{−14 000} of a nat for every
//! model and order, far inside the factor 1 + 2⁻⁴⁰ by which [`crate::Curve::evaluated`] raises each loss; with shifts that depend on
//! earlier coordinates it is below e^{−10 000} up to order 1024. That is why the
//! continuous event is charged; [`crate::Event::PoissonSampledDiscreteGaussian`] stays for coarse grids.

use std::f64::consts::{LN_2, PI};

use libm::log;

use super::LEAST_LOSS;
use super::sampled::{ln_chord, ln_convexity, ln_integer};
use crate::special::softplus;

/// Returns ρ(α) of one discrete Gaussian release of a Poisson(q) sample with noise multiplier z, for adding, removing
/// or zeroing one unit whose rounded contribution has integer coordinates. Arguments as
/// [`super::poisson_sampled_gaussian`].
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
    let at = |n: f64| softplus(ln_integer(q, z, n));
    let ln_moment =
        if order.fract() == 0.0 { at(order) } else { ln_chord(order, at).min(softplus(ln_convexity(q, z, order))) };
    (ln_moment / (order - 1.0)).clamp(LEAST_LOSS, gaussian)
}

/// Returns the logarithm of a bound on the increase of ρ(α) by a grid, for a Poisson-sampled Gaussian release with
/// discrete noise: see the lemma above. `dimension` is d, `steps` is s, the noise's standard deviation in steps of the
/// grid.
pub fn ln_grid_excess(dimension: f64, steps: f64, z: f64, order: f64) -> f64 {
    ln_excess(dimension, 1.5 * PI * PI * steps * z, order)
}

/// Returns the logarithm of a bound on the increase of ρ(α) by a grid, in both directions, for a Poisson-sampled release whose
/// discrete noise a unit shifts by integers that depend on earlier coordinates: see the second lemma above. Arguments as
/// [`ln_grid_excess`]; z is s divided by the most that the norm of all shifts can be.
pub fn ln_adaptive_excess(dimension: f64, steps: f64, z: f64, order: f64) -> f64 {
    ln_excess(dimension, 10.0 / 9.0 * PI * PI * steps * z - (order - 1.0) * LN_2, order)
}

/// Returns ln(2d/(e^κ − 1)/(α − 1)), or more.
fn ln_excess(dimension: f64, kappa: f64, order: f64) -> f64 {
    // ln(e^κ − 1) ≥ κ − ln 2 for κ ≥ ln 2; below that the bound is void.
    if kappa.is_nan() || kappa < LN_2 {
        return f64::INFINITY;
    }
    let per_coordinate = if kappa > 40.0 { LN_2 + LN_2 - kappa } else { LN_2 - log(libm::expm1(kappa)) };
    log(dimension) + per_coordinate - log(order - 1.0)
}

#[cfg(test)]
mod tests {
    use libm::exp;

    use super::*;
    use crate::curve::OrderGrid;
    use crate::mechanism::{gaussian, poisson_sampled_gaussian};
    use crate::special::log_add;
    use proptest::prelude::*;

    /// Returns A_α by summation over the integers, for noise of `s` steps and a unit of `v` steps.
    fn moment(q: f64, s: f64, v: f64, order: f64) -> f64 {
        let reach = (40.0 * s + order * v) as i64;
        let ln_weight = |x: f64| -x * x / (2.0 * s * s);
        let all: f64 = (-reach..=reach).map(|x| exp(ln_weight(x as f64))).sum();
        // By logarithms: in the tails the ratio's power overflows while the weight vanishes.
        let ln_term = |x: f64| {
            let ln_ratio = log_add(libm::log1p(-q), log(q) + v * (2.0 * x - v) / (2.0 * s * s));
            order * ln_ratio + ln_weight(x)
        };
        (-reach..=reach).map(|x| exp(ln_term(x as f64)) / all).sum()
    }

    #[test]
    fn discrete_curve_bounds_sum_and_meets_integer_orders() {
        for (q, s, v) in [(0.1, 8.0, 8.0), (0.5, 10.0, 3.0), (0.01, 9.0, 12.0), (0.3, 8.0, 1.0)] {
            for order in [1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 7.75, 8.0] {
                let got = poisson_sampled_discrete_gaussian(q, s / v, order);
                let lost = moment(q, s, v, order).ln() / (order - 1.0);
                assert!(got >= lost - 1e-11, "{q} {s} {v} {order}: {got} {lost}");
                assert!(order.fract() != 0.0 || got <= lost + 1e-9, "{q} {s} {v} {order}: {got} {lost}");
            }
        }
    }

    #[test]
    fn discrete_excess_is_within_the_lemma() {
        let mut largest = 0.0_f64;
        for s in [0.5, 0.7, 1.0, 1.5, 4.0, 8.0] {
            for (v, q) in [(1.0, 0.1), (2.0, 0.1), (2.0, 0.5), (3.0, 0.1), (3.0, 0.9)] {
                for order in [1.007_812_5, 1.031_25, 1.25, 1.5, 2.5, 5.5] {
                    let discrete = moment(q, s, v, order).ln() / (order - 1.0);
                    let continuous = poisson_sampled_gaussian(q, s / v, order);
                    let excess = exp(ln_grid_excess(1.0, s, s / v, order));
                    assert!(
                        discrete <= continuous + excess + 1e-9,
                        "{s} {v} {q} {order}: {discrete} {continuous} {excess}"
                    );
                    largest = largest.max(discrete - continuous);
                }
            }
        }
        // The grid does cost something where it is coarse, so that the lemma is not empty.
        assert!(largest > 1e-3, "{largest}");
    }

    #[test]
    fn lemma_holds_in_two_dimensions() {
        let (s, q) = (0.8_f64, 0.3);
        for (v, w) in [(1.0, 1.0), (2.0, 1.0), (1.0, 0.0)] {
            let weight = |x: i32| exp(-f64::from(x * x) / (2.0 * s * s));
            let all: f64 = (-30..=30).map(weight).sum();
            for order in [1.031_25, 1.5, 2.5] {
                let mut sum = 0.0;
                for (x, y) in (-30..=30).flat_map(|x| (-30..=30).map(move |y| (x, y))) {
                    let t = (2.0 * (v * f64::from(x) + w * f64::from(y)) - v * v - w * w) / (2.0 * s * s);
                    sum += weight(x) * weight(y) / all / all * (1.0 - q + q * exp(t)).powf(order);
                }
                let z = s / libm::hypot(v, w);
                let discrete = sum.ln() / (order - 1.0);
                let bound = poisson_sampled_gaussian(q, z, order) + exp(ln_grid_excess(2.0, s, z, order));
                assert!(discrete <= bound + 1e-9, "{v} {w} {order}: {discrete} {bound}");
            }
        }
    }

    /// Returns the moments of both directions for two coordinates: the second is shifted by `second` of the first one's value.
    fn adaptive_moments(q: f64, s: f64, first: i32, second: impl Fn(i32) -> i32, order: f64) -> [f64; 2] {
        let ln_weight = |x: i32| -f64::from(x * x) / (2.0 * s * s);
        let all: f64 = (-60..=60).map(|x| exp(ln_weight(x))).sum();
        let ln_ratio = |x: i32, w: i32| f64::from(2 * x * w - w * w) / (2.0 * s * s);
        let mut moments = [0.0; 2];
        for (x, y) in (-60..=60).flat_map(|x| (-60..=60).map(move |y| (x, y))) {
            // By logarithms, as above.
            let mixed = log_add(libm::log1p(-q), log(q) + ln_ratio(x, first) + ln_ratio(y, second(x)));
            let mass = ln_weight(x) + ln_weight(y) - 2.0 * log(all);
            moments[0] += exp(mass + order * mixed);
            moments[1] += exp(mass + (1.0 - order) * mixed);
        }
        moments
    }

    /// The first shift, and the second by the first coordinate.
    type ShiftStrategy = (i32, fn(i32) -> i32);

    #[test]
    fn adaptive_shifts_are_within_their_lemma() {
        let mut largest = [f64::NEG_INFINITY; 2];
        let mut bounded = 0;
        for s in [0.55, 0.7, 1.0, 1.5, 3.0] {
            for q in [0.05, 0.3, 0.9] {
                // Shifts of 1 and 2, or of 2 and 1, by the sign, the parity or the size of the first coordinate.
                let strategies: [ShiftStrategy; 4] = [
                    (1, |x| if x > 0 { 2 } else { -2 }),
                    (1, |x| if x % 2 == 0 { 2 } else { 0 }),
                    (2, |x| i32::from(x.abs() > 2)),
                    (2, |x| if x < 1 { -1 } else { 1 }),
                ];
                for (first, second) in strategies {
                    let z = s / 5.0_f64.sqrt();
                    for order in [1.031_25, 1.5, 2.0, 2.5, 4.0] {
                        let continuous = poisson_sampled_gaussian(q, z, order);
                        let excess = exp(ln_adaptive_excess(2.0, s, z, order));
                        bounded += i32::from(excess < 0.01);
                        let moments = adaptive_moments(q, s, first, second, order);
                        for (moment, largest) in moments.iter().zip(&mut largest) {
                            let lost = moment.ln() / (order - 1.0);
                            assert!(lost <= continuous + excess + 1e-9, "{s} {q} {first} {order}: {lost} {continuous}");
                            *largest = largest.max(lost - continuous);
                        }
                    }
                }
            }
        }
        // The lemma says something on many of these grids, and the coarse ones do cost more than continuous noise.
        assert!(bounded > 100 && largest[0] > 1e-4, "{bounded} {largest:?}");
    }

    /// As below, for noise that is correlated over steps.
    #[test]
    fn excess_of_correlated_noise_on_the_worker_grid_is_within_the_cover() {
        let orders = OrderGrid::reporting();
        for order in orders.orders() {
            let excess = ln_adaptive_excess(32.0 * 4e9, 1_048_576.0, 1.0 / 1024.0, order.get());
            assert!(excess < -10_000.0, "{order:?} {excess}");
        }
    }

    /// The extreme charges of training: the least noise in steps, the least multiplier, more coordinates than any
    /// model, the order nearest to 1, the smallest possible loss.
    #[test]
    fn worker_grid_excess_is_within_the_cover() {
        let (steps, z, dimension) = (1_048_576.0, 1.0 / 1024.0, 4e9);
        let order = OrderGrid::reporting().orders()[0].get();
        let excess = ln_grid_excess(dimension, steps, z, order);
        assert!(excess < -14_000.0, "{excess}");
        let least = poisson_sampled_gaussian(1.0 / 4_294_967_296.0, 1024.0, order);
        assert!(least > 0.0 && excess < log(least) - 40.0 * LN_2, "{excess} {least}");
    }

    proptest! {
        #[test]
        fn discrete_equals_sampled_gaussian_at_integer_orders(
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
