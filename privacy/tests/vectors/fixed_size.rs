//! A Gaussian release of a batch of fixed size drawn without replacement, under replace-one adjacency (Wang, Balle and
//! Kasiviswanathan 2019, Theorem 27, with the improvements for the Gaussian). About twice the cost of Poisson sampling;
//! it serves to check foreign claims and is not offered to jobs.

use std::f64::consts::PI;

use libm::{ceil, exp, expm1, floor, log};
use undertone_privacy::mechanism::gaussian;
use undertone_privacy::special::{ln_binomial, ln_expm1, softplus};

/// 2⁻⁵³, the relative error of one rounded operation.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Returns ρ(α) of one Gaussian release on m of n units, m/n = `rate` in [0, 1], with z_R = σ / (replace-one
/// sensitivity) > 0. An upper bound; fractional orders by convexity of ln A between the integers around them.
pub(crate) fn fixed_size_sampled_gaussian(rate: f64, z: f64, order: f64) -> f64 {
    let valid = (0.0..=1.0).contains(&rate) && z >= 0.0 && order > 1.0 && order.is_finite();
    if !valid {
        return f64::INFINITY;
    }
    if rate == 0.0 {
        return 0.0;
    }
    let whole = gaussian(z, order);
    if rate >= 1.0 || whole.is_infinite() {
        return whole;
    }
    let below = floor(order);
    let above = ceil(order);
    // ln A at 1 is 0, and ln A is convex in the order.
    let at = |n: f64| if n < 2.0 { 0.0 } else { ln_moment(rate, z, n) };
    let ln_a = if order.fract() == 0.0 { at(order) } else { (above - order) * at(below) + (order - below) * at(above) };
    (ln_a / (order - 1.0)).min(whole)
}

/// Returns ln of A_α ≤ 1 + q² C(α,2) min(4(e^{1/z²}−1), 2e^{1/z²}) + Σ_{j≥3} q^j C(α,j) min(4 √(Δ^{(2⌊j/2⌋)}
/// Δ^{(2⌈j/2⌉)}), 2 f(j)).
fn ln_moment(rate: f64, z: f64, order: f64) -> f64 {
    let ln_rate = log(rate);
    let unit = 1.0 / z / z;
    let ln_2 = log(2.0);
    let ln_4 = log(4.0);
    let second = (ln_4 + ln_expm1(unit)).min(ln_2 + unit);
    let mut terms = vec![2.0 * ln_rate + ln_binomial(order, 2.0) + second];
    let mut even = ln_even_difference(2.0, unit);
    let mut j = 3.0;
    while j <= order {
        let next = if j % 2.0 == 0.0 { even } else { ln_even_difference(j + 1.0, unit) };
        let ln_f = 0.5 * j * (j - 1.0) * unit;
        terms.push(j * ln_rate + ln_binomial(order, j) + (ln_4 + 0.5 * (even + next)).min(ln_2 + ln_f));
        even = next;
        j += 1.0;
    }
    let greatest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = terms.iter().map(|term| exp(term - greatest)).sum();
    let magnitude = order * (order * unit + 30.0 - ln_rate);
    softplus(greatest + log(sum) + 8.0 * UNIT * magnitude + 1e-11)
}

/// Returns ln Δ^{(l)} f(0) for even l, f(i) = e^{i(i−1)s/2} = E[e^{iY}] with Y = √s g − s/2: the l-th forward
/// difference is E[(e^Y − 1)^l], which is positive and integrates (trapezoid, entire integrand) without the
/// cancellation of the sum.
fn ln_even_difference(l: f64, s: f64) -> f64 {
    const STEP: f64 = 0.1;
    let root = s.sqrt();
    let spread = 12.0 + (2.0 * l).sqrt();
    let count = ceil((2.0 * spread + l * root) / STEP) as u64;
    let ln_terms = |index: u64| {
        let g = STEP * index as f64 - spread;
        let y = root * g - 0.5 * s;
        let ln_distance = if y > 30.0 { y } else { log(expm1(y).abs()) };
        l * ln_distance - 0.5 * g * g
    };
    let greatest = (0..=count).map(ln_terms).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = (0..=count).map(|index| exp(ln_terms(index) - greatest)).sum();
    greatest + log(sum * STEP / (2.0 * PI).sqrt())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "these edges are exact")]
    use super::*;

    #[test]
    fn even_differences_match_alternating_sum() {
        for (l, s) in [(2.0, 1.0), (4.0, 1.0), (6.0, 2.0), (4.0, 0.25)] {
            let mut sum = 0.0;
            for i in 0..=(l as u32) {
                let i = f64::from(i);
                let sign = if (l - i) % 2.0 == 0.0 { 1.0 } else { -1.0 };
                sum += sign * exp(ln_binomial(l, i)) * exp(0.5 * i * (i - 1.0) * s);
            }
            assert!((exp(ln_even_difference(l, s)) / sum - 1.0).abs() < 1e-9, "{l} {s}");
        }
    }

    #[test]
    fn full_batch_is_gaussian_and_empty_batch_is_free() {
        assert_eq!(fixed_size_sampled_gaussian(1.0, 2.0, 4.0), 0.5);
        assert_eq!(fixed_size_sampled_gaussian(0.0, 2.0, 4.0), 0.0);
        assert_eq!(fixed_size_sampled_gaussian(0.5, 0.0, 4.0), f64::INFINITY);
    }
}
