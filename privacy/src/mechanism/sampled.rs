//! The Poisson-sampled Gaussian mechanism (Mironov, Talwar and Zhang 2019), at every real order above 1.
//!
//! A_α = E[r(x)^α] over x ~ N(0, z²) with r(x) = 1 − q + q e^{(2x−1)/(2z²)}, and ρ(α) = ln A_α / (α−1). This direction
//! dominates the reverse (their Theorem 5). Both methods below compute ln(A_α − 1), not ln A_α: A_α − 1 is often far
//! below the last digit of 1. Both add a bound of their own rounding error, so the result is never below the true
//! value.

use std::f64::consts::{LN_2, PI};

use libm::{exp, expm1, log, log1p};

use crate::special::{UNIT, ln_expm1, softplus};

/// One Gaussian release of a Poisson(q) sample with noise multiplier z = σ/C, for adding, removing or zeroing one unit;
/// it caches the values that several orders need.
#[derive(Debug)]
pub(super) struct SampledGaussian {
    q: f64,
    z: f64,
    /// Nodes of the quadrature, from the left; as many as the orders so far needed.
    nodes: Vec<QuadratureNode>,
}

/// Returns ρ(α) of one Gaussian release of a Poisson(q) sample with noise multiplier z = σ/C, for adding, removing or
/// zeroing one unit. Never below the true value; above it by less than 1e-9 of it for z ≥ 0.03 (below that, fractional
/// orders take a convexity bound). q = 0 costs nothing, q = 1 is the Gaussian, z = 0 is infinite.
///
/// Arguments: q in [0, 1], z ≥ 0, order > 1; anything else is infinite.
pub fn poisson_sampled_gaussian(q: f64, z: f64, order: f64) -> f64 {
    SampledGaussian::new(q, z).loss(order)
}

impl SampledGaussian {
    pub(super) const fn new(q: f64, z: f64) -> Self {
        Self { q, z, nodes: Vec::new() }
    }

    /// Returns ρ(α): see [`poisson_sampled_gaussian`].
    pub(super) fn loss(&mut self, order: f64) -> f64 {
        let Self { q, z, .. } = *self;
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
        let ln_excess = if order.fract() == 0.0 {
            ln_integer(q, z, order)
        } else if z < LEAST_QUADRATURE_NOISE {
            ln_convexity(q, z, order)
        } else {
            self.fractional(order)
        };
        // Sampling never costs more than not sampling.
        (softplus(ln_excess) / (order - 1.0)).clamp(super::LEAST_LOSS, gaussian)
    }
}

/// Below this noise the quadrature would need too many points.
const LEAST_QUADRATURE_NOISE: f64 = 0.03;

/// A term e^−60 of the greatest is below the last digit of any sum here, even a million of them.
const NEGLIGIBLE: f64 = 60.0;

/// A sum of terms given by their logarithms, with the greatest magnitude that was rounded on the way.
struct LogSum {
    greatest: f64,
    scaled: f64,
}

impl LogSum {
    const EMPTY: Self = Self { greatest: f64::NEG_INFINITY, scaled: 0.0 };

    fn push(&mut self, ln_term: f64) {
        if ln_term > self.greatest {
            self.scaled = self.scaled * exp(self.greatest - ln_term) + 1.0;
            self.greatest = ln_term;
        } else if ln_term > self.greatest - NEGLIGIBLE {
            self.scaled += exp(ln_term - self.greatest);
        }
    }

    fn ln(&self) -> f64 {
        self.greatest + log(self.scaled)
    }
}

/// Returns ln(A_α − 1) at integer α ≥ 2: [`ln_binomial`] with the moments of a Gaussian, whose logarithms are k(k−1)/(2z²).
pub(super) fn ln_integer(q: f64, z: f64, order: f64) -> f64 {
    let unit = 0.5 / z / z;
    ln_binomial(q, order, |k| k * (k - 1.0) * unit)
}

/// Returns ln(A_α − 1) at integer α ≥ 2 for noise with the moments E[ratio^k] = e^growth(k): the sum
/// Σ_{k≥2} C(α,k) (1−q)^{α−k} q^k expm1(growth(k)), all of whose terms are positive. The moments of k = 0 and 1 are 1.
pub(super) fn ln_binomial(q: f64, order: f64, growth: impl Fn(f64) -> f64) -> f64 {
    let ln_q = log(q);
    let ln_rest = log1p(-q);
    let mut sum = LogSum::EMPTY;
    let mut magnitude = 0.0f64;
    // C(α,k) as mantissa · 2^exponent: products keep their relative precision where differences of ln Γ would not.
    let (mut mantissa, mut exponent) = (order, 0.0);
    let mut k = 1.0;
    while k < order {
        k += 1.0;
        mantissa *= (order - k + 1.0) / k;
        if mantissa > 1e200 {
            mantissa /= TWO_512;
            exponent += 512.0;
        } else if mantissa < 1e-50 {
            mantissa *= TWO_512;
            exponent -= 512.0;
        }
        let chance = log(mantissa) + exponent * LN_2 + (order - k) * ln_rest + k * ln_q;
        let growth = growth(k);
        // ln(eˣ − 1) is x to the last digit there.
        sum.push(chance + if growth > 45.0 { growth } else { ln_expm1(growth) });
        magnitude = magnitude.max(chance.abs() + (order - k) * -ln_rest - k * ln_q + growth);
    }
    sum.ln() + UNIT * (8.0 * magnitude + 4.0 * order + 16.0)
}

/// 2⁵¹².
const TWO_512: f64 = 1.340_780_792_994_259_7e154;

/// One point of the quadrature: the values that do not depend on the order.
#[derive(Debug)]
struct QuadratureNode {
    /// The exponent (2x − 1)/(2z²).
    t: f64,
    /// The Gaussian's exponent x²/(2z²).
    decay: f64,
    /// r − 1, and ln r.
    w: f64,
    ln_r: f64,
}

impl SampledGaussian {
    /// Returns ln(A_α − 1) at any α > 1, by the trapezoid rule on E[r^α − 1 − α(r−1)] (the subtracted part integrates
    /// to 0, and the remainder is positive by convexity).
    ///
    /// The integrand is analytic in the strip |Im x| < πz², where r first vanishes, and there |r| is at most its value on
    /// the real line; the Gaussian grows by e^{y²/(2z²)} at height y. A step of 0.6 z² (or z/2 if less) therefore errs by
    /// about e^{−2π²/0.6} < 1e-14 of the integral, the ends left out (10 z beyond the outermost modes, 0 and α) by less
    /// than 1e-20.
    fn fractional(&mut self, order: f64) -> f64 {
        let Self { q, z, .. } = *self;
        let step = (0.5 * z).min(0.6 * z * z);
        let variance = z * z;
        let ln_q = log(q);
        let count = libm::ceil((order + 20.0 * z) / step) as usize;
        let first = -10.0 * z;
        for index in self.nodes.len()..=count {
            let x = first + step * index as f64;
            let t = (x - 0.5) / variance;
            let decay = 0.5 * (x / z) * (x / z);
            // Beyond, r is q e^t to the last digit.
            let (w, ln_r) = if t + ln_q > FAR {
                (f64::INFINITY, t + ln_q)
            } else {
                let w = q * expm1(t);
                (w, log1p(w))
            };
            self.nodes.push(QuadratureNode { t, decay, w, ln_r });
        }
        let mut sum = LogSum::EMPTY;
        let mut magnitude = 0.0f64;
        for node in &self.nodes[..=count] {
            let (ln_f, size) = node.ln_bend(order);
            if ln_f > f64::NEG_INFINITY {
                sum.push(ln_f - node.decay);
                magnitude = magnitude.max(size + order * node.t.abs() * 2.0 + node.decay * 2.0);
            }
        }
        let weight = step / z / (2.0 * PI).sqrt();
        sum.ln() + log(weight) + 4.0 * UNIT * magnitude + QUADRATURE_SLACK
    }
}

/// Where 1 + q(e^t − 1) is q e^t to the last digit: ln q + t above this.
const FAR: f64 = 40.0;

/// Relative error of A_α − 1 that the quadrature may make, apart from the rounding of exponents: truncation (1e-14),
/// cancellation in the integrand (at most 3 digits of 16), and summation.
const QUADRATURE_SLACK: f64 = 2e-11;

impl QuadratureNode {
    /// Returns ln(r^α − 1 − α(r−1)), and the magnitude of the largest exponent in its computation.
    fn ln_bend(&self, order: f64) -> (f64, f64) {
        let (w, ln_r, above) = (self.w, self.ln_r, order - 1.0);
        if w.is_infinite() {
            // The power overwhelms its tangent unless the order is close to 1.
            let power = above * ln_r;
            let inner = if power > FAR { power } else { log(expm1(power) - above) };
            return (ln_r + inner, order * ln_r);
        }
        if w.abs() < 0.05 && (order * w).abs() < 0.25 {
            // Σ_{j≥2} C(α,j) w^j: the direct form would cancel.
            let mut term = 0.5 * order * above * w * w;
            let mut sum = term;
            for j in 2..24 {
                let j = f64::from(j);
                term *= (order - j) / (j + 1.0) * w;
                sum += term;
                // Each term is at most a quarter of the one before: no later one moves a digit.
                if term.abs() <= 1e-17 * sum {
                    break;
                }
            }
            (log(sum), 1.0)
        } else if ln_r > 1.0 {
            let power = above * ln_r;
            let inner = if power > FAR { power } else { log(expm1(power) + above * expm1(-ln_r)) };
            (ln_r + inner, order * ln_r)
        } else {
            let bend = (1.0 + w) * expm1(above * ln_r) - above * w;
            (log(bend.max(0.0)), order * ln_r.abs())
        }
    }
}

/// Returns an upper bound of ln(A_α − 1) for tiny noise: by convexity of the power, r^α ≤ 1 − q + q e^{αt}, whose mean
/// is 1 + q expm1(α(α−1)/(2z²)).
pub(super) fn ln_convexity(q: f64, z: f64, order: f64) -> f64 {
    ln_coin(q, 0.5 * order * (order - 1.0) / z / z)
}

/// Returns ln(q expm1(growth)): the excess of a moment over 1 where the adversary learns the coin of rate q, and the moment
/// with the unit in the sample is e^growth.
pub(super) fn ln_coin(q: f64, growth: f64) -> f64 {
    log(q) + ln_expm1(growth) + UNIT * (4.0 * growth + 16.0)
}

/// Returns a bound on ln A at a fractional order from `at`, the values at integer orders from 2: ln A is convex in the order, and 0
/// at order 1.
pub(super) fn ln_chord(order: f64, at: impl Fn(f64) -> f64) -> f64 {
    let below = libm::floor(order);
    let above = libm::ceil(order);
    let first = if below < 2.0 { 0.0 } else { at(below) };
    (above - order) * first + (order - below) * at(above)
}
