//! Amplification by sampling: the guarantee of a mechanism on a sample that keeps each row independently with the same
//! probability.
//!
//! A guarantee of (ε, δ) on the sample gives (ln(1 + β(e^ε − 1)), βδ) on the sampled data (Li, Qardaji and Su 2012,
//! Theorem 1; Balle,
//! Barthe and Gaboardi 2018), adding or removing one row. Both directions round up.

use libm::{expm1, log, log1p};

use crate::special::UNIT;

/// Bounds the relative error of the evaluation several times over.
const SLACK: f64 = 1.0 + 16.0 * UNIT;

/// Returns (ln(1 + β(e^ε − 1)), βδ): the guarantee on the data of an (`epsilon`, `delta`) guarantee on a sample of rate
/// `rate` in (0, 1]. From one rate to a lesser one, `rate` is the ratio of the two. Never above `epsilon` and `delta`.
pub fn by_sampling(epsilon: f64, delta: f64, rate: f64) -> (f64, f64) {
    if rate >= 1.0 {
        return (epsilon, delta);
    }
    // Beyond 40 the 1 is below the last digit: ε + ln(β + e^{−ε}(1 − β)).
    let sampled = if epsilon < 40.0 {
        log1p(rate * expm1(epsilon)) * SLACK
    } else {
        epsilon + log(rate + libm::exp(-epsilon)) + 4.0 * UNIT * (epsilon - log(rate))
    };
    (sampled.min(epsilon), (rate * delta * SLACK).min(delta))
}

/// Returns the inverse, (ln(1 + (e^ε − 1)/β), δ/β): the greatest cost of a mechanism on the sample that keeps
/// (`epsilon`, `delta`) on the data. Rounded down, because it is an allowance.
pub fn before_sampling(epsilon: f64, delta: f64, rate: f64) -> (f64, f64) {
    if rate >= 1.0 {
        return (epsilon, delta);
    }
    let allowed = if epsilon < 40.0 { log1p(expm1(epsilon) / rate) / SLACK } else { (epsilon - log(rate)) / SLACK };
    (allowed.max(epsilon), (delta / rate / SLACK).max(delta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn allowance_before_sampling_keeps_the_guarantee(
            ln_epsilon in -12.0f64..5.0, delta in 1e-12f64..0.1, rate in 1e-6f64..1.0
        ) {
            let epsilon = libm::exp(ln_epsilon);
            let (sampled, mass) = by_sampling(epsilon, delta, rate);
            prop_assert!(sampled <= epsilon && mass <= delta && sampled > 0.0 && mass > 0.0);
            let (allowed, before) = before_sampling(epsilon, delta, rate);
            let (again, after) = by_sampling(allowed, before, rate);
            prop_assert!((again / epsilon - 1.0).abs() < 1e-9 && (after / delta - 1.0).abs() < 1e-12, "{}", again);
        }

        #[test]
        fn sampling_twice_equals_product_rate(epsilon in 0.01f64..60.0, a in 0.01f64..1.0, b in 0.01f64..1.0) {
            let (first, mass) = by_sampling(epsilon, 1e-6, a);
            let (twice, mass) = by_sampling(first, mass, b);
            let (once, product) = by_sampling(epsilon, 1e-6, a * b);
            prop_assert!((twice / once - 1.0).abs() < 1e-11 && (mass / product - 1.0).abs() < 1e-13);
        }
    }
}
