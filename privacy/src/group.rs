//! Guarantees for a group of g units, from those for one.
//!
//! Prefer a privacy unit that is the group. The general Rényi conversion halves orders and is not offered.

use libm::{exp, expm1};

use crate::special::UNIT;
use crate::unit::{Delta, Epsilon};

/// Returns (g ε, δ Σ_{i<g} e^{iε}) for a group of `size` units under an (ε, δ) guarantee, rounded up; `None` when that
/// is no guarantee (δ would reach 1, or ε would be infinite). An empty group loses nothing.
pub fn epsilon_delta(epsilon: Epsilon, delta: Delta, size: u64) -> Option<(Epsilon, Delta)> {
    let e = epsilon.get();
    let g = size as f64;
    let group_epsilon = if size < 2 { e * g } else { (e * g).next_up() };
    // Σ_{i<g} e^{iε} = (e^{gε} − 1)/(e^ε − 1).
    let sum = if e == 0.0 { g } else { expm1(e * g) / expm1(e) };
    let slack = 1.0 + (8.0 + 4.0 * e * g) * UNIT;
    let group_delta = if delta.get() == 0.0 || size < 2 { delta.get() * g.min(1.0) } else { delta.get() * sum * slack };
    Epsilon::new(group_epsilon).ok().zip(Delta::new(group_delta).ok())
}

/// Returns δ of two changes under an (ε, δ) guarantee: δ (1 + e^ε).
pub(crate) fn pair_delta(epsilon: Epsilon, delta: Delta) -> f64 {
    if delta.get() == 0.0 { 0.0 } else { (delta.get() * (1.0 + exp(epsilon.get())) * (1.0 + 8.0 * UNIT)).min(1.0) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;

    #[test]
    fn group_of_one_keeps_the_guarantee() {
        let epsilon = Epsilon::new(0.7).unwrap();
        let delta = Delta::new(1e-6).unwrap();
        assert_eq!(epsilon_delta(epsilon, delta, 1), Some((epsilon, delta)));
    }

    #[test]
    fn group_delta_equals_geometric_sum() {
        let epsilon = Epsilon::new(0.1).unwrap();
        let delta = Delta::new(1e-9).unwrap();
        let sum: f64 = (0..11).map(|i| exp(0.1 * f64::from(i))).sum();
        let (_, group) = epsilon_delta(epsilon, delta, 11).unwrap();
        assert!((group.get() / (sum * 1e-9) - 1.0).abs() < 1e-13 && group.get() >= sum * 1e-9);
    }

    #[test]
    fn large_group_has_no_guarantee() {
        assert_eq!(epsilon_delta(Epsilon::new(100.0).unwrap(), Delta::new(1e-6).unwrap(), 20), None);
    }
}
