//! Fast evaluation of Mills' ratio m(v) = Φc(v)/φ(v) and its differences: a profile needs hundreds of thousands of
//! values, a few hundred within every unit of v.

use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::sync::LazyLock;

use libm::exp;

use crate::special::{erfcx, erfcx_fall};

/// Nodes to a unit, and the last node.
const PER_UNIT: f64 = 16.0;
const LAST: f64 = 36.0;
/// Terms of the series around a node: the first left out is below (1/32)⁹/1183 < 3e-17.
const TERMS: usize = 9;

/// m around every node, by the differential equation m' = v m − 1, hence m⁽ⁿ⁺¹⁾ = v m⁽ⁿ⁾ + n m⁽ⁿ⁻¹⁾.
static NODES: LazyLock<Vec<[f64; TERMS]>> = LazyLock::new(|| {
    let node = |index: usize| {
        let v = index as f64 / PER_UNIT;
        let value = (0.5 * PI).sqrt() * erfcx(v * FRAC_1_SQRT_2);
        let mut derivatives = [value, v * value - 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for n in 1..TERMS - 1 {
            derivatives[n + 1] = v * derivatives[n] + n as f64 * derivatives[n - 1];
        }
        let mut factorial = 1.0;
        for (n, derivative) in derivatives.iter_mut().enumerate().skip(1) {
            factorial *= n as f64;
            *derivative /= factorial;
        }
        derivatives
    };
    (0..=(LAST * PER_UNIT) as usize).map(node).collect()
});

/// Returns m(v) for v ≥ −7; relative error about 1e-15.
pub(super) fn mills(v: f64) -> f64 {
    if v >= LAST {
        return (0.5 * PI).sqrt() * erfcx(v * FRAC_1_SQRT_2);
    }
    if v < 0.0 {
        // Φc(v) = 1 − Φc(−v).
        return (2.0 * PI).sqrt() * exp(0.5 * v * v) - mills(-v);
    }
    let index = (v * PER_UNIT + 0.5) as usize;
    let t = v - index as f64 / PER_UNIT;
    NODES[index].iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient)
}

/// Returns Φc(v).
pub(super) fn tail(v: f64) -> f64 {
    let below = v < 0.0;
    let size = v.abs();
    let beyond = exp(-0.5 * size * size) / (2.0 * PI).sqrt() * mills(size);
    if below { 1.0 - beyond } else { beyond }
}

/// Returns m(v) − m(v + w) for v ≥ −7 and w > 0; relative error about 3e-13.
pub(super) fn mills_fall(v: f64, w: f64) -> f64 {
    if w >= 0.35 || v * w < -0.1 {
        return mills(v) - mills(v + w);
    }
    let middle = v + 0.5 * w;
    if middle > 10.0 {
        // The derivatives below would cancel.
        return (0.5 * PI).sqrt() * erfcx_fall(v * FRAC_1_SQRT_2, w * FRAC_1_SQRT_2);
    }
    // −2 Σ_{n odd} m⁽ⁿ⁾(middle) (w/2)ⁿ/n!: the even terms of both ends cancel.
    let value = mills(middle);
    let (mut before, mut here) = (value, middle * value - 1.0);
    let (mut power, mut sum) = (0.5 * w, 0.0);
    for n in 1..12 {
        if n % 2 == 1 {
            sum -= 2.0 * here * power;
        }
        (before, here) = (here, middle * here + f64::from(n) * before);
        power *= 0.5 * w / f64::from(n + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mills_series_match_the_function() {
        for k in -700..5000 {
            let v = f64::from(k) * 0.01 + 0.003;
            let exact = (0.5 * PI).sqrt() * erfcx(v * FRAC_1_SQRT_2);
            if v > -7.0 {
                assert!((mills(v) / exact - 1.0).abs() < 1e-14, "{v}: {:e} {exact:e}", mills(v));
            }
        }
    }

    #[test]
    fn mills_falls_match_differences_and_slopes() {
        for k in -69..450 {
            let v = f64::from(k) * 0.1 + 0.003;
            for w in [0.9, 0.36, 0.34, 0.1, 0.01, 1e-3] {
                let ends = (v * FRAC_1_SQRT_2, w * FRAC_1_SQRT_2);
                let whole = if ends.1 < 0.25 && v > -0.5 {
                    erfcx_fall(ends.0, ends.1)
                } else {
                    erfcx(ends.0) - erfcx(ends.0 + ends.1)
                };
                let exact = (0.5 * PI).sqrt() * whole;
                let error = (mills_fall(v, w) / exact - 1.0).abs();
                // A plain difference of far values loses digits itself.
                let most = 4e-13 + if ends.1 >= 0.25 || v <= -0.5 { 1e-14 / w } else { 0.0 };
                assert!(error < most, "{v} {w}: {:e} {exact:e} {error:e}", mills_fall(v, w));
            }
        }
    }
}
