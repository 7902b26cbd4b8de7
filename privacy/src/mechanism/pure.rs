//! Mechanisms with a pure guarantee, and the Laplace mechanism.

use libm::{expm1, log1p};

use crate::special::softplus;

/// Returns ρ(α) of the Laplace mechanism of scale Δ/ε (Mironov 2017, Table II), in the form ε + ln(1 + (α−1)
/// expm1((1−2α)ε) / (2α−1)) / (α−1), which keeps its digits for small ε.
pub fn laplace(epsilon: f64, order: f64) -> f64 {
    if epsilon <= 0.0 {
        return 0.0;
    }
    let (above, span) = (order - 1.0, 2.0 * order - 1.0);
    if span * epsilon < 0.05 {
        return small_laplace(epsilon, order);
    }
    let inner = above * expm1(-span * epsilon) / span;
    (epsilon + log1p(inner) / above).clamp(super::LEAST_LOSS.min(epsilon), epsilon)
}

/// Returns the same for (2α−1) ε < 0.05, where the two terms above cancel: ln of 1 + y with y the power series of (α
/// e^{(α−1)ε} + (α−1) e^{−αε}) / (2α−1) − 1, whose first-order part vanishes.
fn small_laplace(epsilon: f64, order: f64) -> f64 {
    let (above, span) = (order - 1.0, 2.0 * order - 1.0);
    let (up, down) = (above * epsilon, -order * epsilon);
    let (mut up_power, mut down_power) = (up, down);
    let mut sum = 0.0;
    for n in 2..=14 {
        let n = f64::from(n);
        up_power *= up / n;
        down_power *= down / n;
        sum += order * up_power + above * down_power;
    }
    (log1p(sum / span) / above).max(super::LEAST_LOSS.min(epsilon))
}

/// Returns ρ(α) of any ε-DP mechanism: that of binary randomized response, the worst of them (Kairouz, Oh and Viswanath
/// 2015).
///
/// With p = 1/(1+e^{−ε}): ln(p^α (1−p)^{1−α} + (1−p)^α p^{1−α})/(α−1); symmetric form
/// ln(cosh((α−½)ε) / cosh(ε/2))/(α−1), since p/(1−p) = e^ε.
pub fn pure(epsilon: f64, order: f64) -> f64 {
    if epsilon <= 0.0 {
        return 0.0;
    }
    let above = order - 1.0;
    let wide = (order - 0.5) * epsilon;
    let narrow = 0.5 * epsilon;
    let loss = if wide < 1.0 {
        // cosh a / cosh b = 1 + 2 sinh((a+b)/2) sinh((a−b)/2) / cosh b, all terms positive.
        let ratio = 2.0 * libm::sinh(0.5 * (wide + narrow)) * libm::sinh(0.5 * (wide - narrow)) / libm::cosh(narrow);
        log1p(ratio) / above
    } else {
        // ln cosh x = |x| − ln 2 + ln(1 + e^{−2|x|}); wide − narrow = (α−1) ε exactly.
        epsilon + (softplus(-2.0 * wide) - softplus(-2.0 * narrow)) / above
    };
    loss.clamp(super::LEAST_LOSS.min(epsilon), epsilon)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "these edges are exact")]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pure_cost_is_within_epsilon_and_zcdp_bound(
            epsilon in 1e-6f64..50.0, order in 1.001f64..1024.0
        ) {
            let loss = pure(epsilon, order);
            prop_assert!(loss <= epsilon && loss <= order * epsilon * epsilon / 2.0 * (1.0 + 1e-12));
            prop_assert!(laplace(epsilon, order) <= loss * (1.0 + 1e-12));
        }

        #[test]
        fn laplace_forms_agree_at_their_switch(order in 1.001f64..64.0) {
            let epsilon = 0.05 / (2.0 * order - 1.0);
            let below = laplace(epsilon * (1.0 - 1e-9), order);
            let above = laplace(epsilon * (1.0 + 1e-9), order);
            prop_assert!((above / below - 1.0).abs() < 1e-8, "{} {}", below, above);
        }
    }

    #[test]
    fn zero_epsilon_costs_nothing() {
        assert_eq!(pure(0.0, 2.0), 0.0);
        assert_eq!(laplace(0.0, 2.0), 0.0);
    }
}
