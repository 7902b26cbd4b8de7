//! The Gaussian mechanism exactly: its whole privacy profile, for composed Gaussians and for calibration.
//!
//! Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022. Everything is a function of μ = Δ/σ, and T-fold composition
//! is exact: μ_total² = Σ μᵢ².

use std::f64::consts::FRAC_1_SQRT_2;

use libm::{erf, erfc, exp, log};

use crate::special::{erfcx, erfcx_fall};
use crate::unit::{Delta, Epsilon};

/// Why parameters do not describe a Gaussian mechanism.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{name} must be a finite number of at least 0, not {value}")]
pub struct GaussianError {
    name: &'static str,
    value: f64,
}

/// The privacy profile of a Gaussian release, by μ = Δ/σ ≥ 0; infinite without noise.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct GaussianProfile {
    mu: f64,
}

/// Bounds the error of evaluating ln δ, apart from the rounding of a²/2.
const SLACK: f64 = 1e-12;

impl GaussianProfile {
    /// Makes the profile of noise σ on a release of L2 sensitivity Δ. Δ = 0 loses nothing, σ = 0 hides nothing.
    ///
    /// # Errors
    /// [`GaussianError`] unless both are finite and not negative.
    pub fn new(l2_sensitivity: f64, sigma: f64) -> Result<Self, GaussianError> {
        for (name, value) in [("l2_sensitivity", l2_sensitivity), ("sigma", sigma)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(GaussianError { name, value });
            }
        }
        Ok(Self { mu: if l2_sensitivity == 0.0 { 0.0 } else { l2_sensitivity / sigma } })
    }

    /// Makes the profile of a given μ ≥ 0.
    pub(crate) const fn of_mu(mu: f64) -> Self {
        Self { mu }
    }

    /// Returns μ.
    pub const fn mu(self) -> f64 {
        self.mu
    }

    /// Composes `count` such releases: √count · μ.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        // 0 · ∞ would be NaN; without a release nothing is lost.
        Self { mu: if count == 0 { 0.0 } else { self.mu * (count as f64).sqrt() } }
    }

    /// Returns δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), nearest, relative error about 1e-12.
    pub fn delta(self, epsilon: Epsilon) -> f64 {
        let (prefix, bracket) = self.parts(epsilon.get());
        if prefix == 0.0 { bracket } else { exp(prefix) * bracket }
    }

    /// Returns ln δ(ε), without underflow; −∞ for μ = 0.
    pub fn ln_delta(self, epsilon: Epsilon) -> f64 {
        let (prefix, bracket) = self.parts(epsilon.get());
        prefix + log(bracket)
    }

    /// Returns δ(ε) as e^prefix · bracket.
    fn parts(self, epsilon: f64) -> (f64, f64) {
        let mu = self.mu;
        if mu == 0.0 {
            return (0.0, 0.0);
        }
        if mu == f64::INFINITY {
            return (0.0, 1.0);
        }
        if epsilon == 0.0 {
            return (0.0, erf(0.5 * mu * FRAC_1_SQRT_2));
        }
        let a = epsilon / mu - 0.5 * mu;
        let (low, width) = (a * FRAC_1_SQRT_2, mu * FRAC_1_SQRT_2);
        if mu < 0.35 {
            (-0.5 * a * a, 0.5 * erfcx_fall(low, width))
        } else if a >= 0.0 {
            (-0.5 * a * a, 0.5 * (erfcx(low) - erfcx(low + width)))
        } else {
            let upper = 0.5 * erfc(-low) + 0.5 * exp(-0.5 * a * a) * erfcx(low + width);
            (0.0, (1.0 - upper).max(0.0))
        }
    }

    /// Returns the least ε at δ, rounded up; `None` when there is none (δ = 0 or σ = 0).
    pub fn epsilon(self, delta: Delta) -> Option<Epsilon> {
        let mu = self.mu;
        let delta = delta.get();
        if mu == 0.0 || delta >= erf(0.5 * mu * FRAC_1_SQRT_2) * (1.0 + 1e-15) {
            return Epsilon::new(0.0).ok();
        }
        if mu == f64::INFINITY || delta == 0.0 {
            return None;
        }
        let ln_delta = log(delta);
        let mut low = 0.0;
        let mut high = 0.5 * mu * mu + mu * ((-2.0 * ln_delta).sqrt() + 1.0);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                break;
            }
            if self.meets(middle, ln_delta) { high = middle } else { low = middle }
        }
        Epsilon::new(high).ok()
    }

    /// Returns true if ln δ(ε) is certainly at most this.
    fn meets(self, epsilon: f64, ln_delta: f64) -> bool {
        let (prefix, bracket) = self.parts(epsilon);
        prefix + log(bracket) + SLACK + 8.0 * f64::EPSILON * prefix.abs() <= ln_delta
    }

    /// Returns the largest μ that is (ε, δ)-DP, rounded down; 0 for δ = 0.
    pub fn largest(epsilon: Epsilon, delta: Delta) -> Self {
        if delta.get() == 0.0 {
            return Self { mu: 0.0 };
        }
        let ln_delta = log(delta.get());
        let mut low = 0.0;
        let mut high = (2.0 * epsilon.get()).sqrt() + 2.0 * (-2.0 * ln_delta).sqrt() + 8.0;
        for _ in 0..300 {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                break;
            }
            if (Self { mu: middle }).meets(epsilon.get(), ln_delta) { low = middle } else { high = middle }
        }
        Self { mu: low }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "these edges are exact")]
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaussian_edges_match_definition() {
        let delta = Delta::new(1e-6).unwrap();
        assert_eq!(GaussianProfile::new(0.0, 0.0).unwrap().epsilon(delta).unwrap().get(), 0.0);
        assert_eq!(GaussianProfile::new(1.0, 0.0).unwrap().epsilon(delta), None);
        assert_eq!(GaussianProfile::new(1.0, 1.0).unwrap().epsilon(Delta::new(0.0).unwrap()), None);
        assert_eq!(GaussianProfile::new(1.0, 0.0).unwrap().delta(Epsilon::new(3.0).unwrap()), 1.0);
        assert_eq!(GaussianProfile::new(1.0, 0.0).unwrap().times(0).mu(), 0.0);
        assert!(GaussianProfile::new(f64::NAN, 1.0).is_err());
        assert!(GaussianProfile::new(1.0, -1.0).is_err());
    }

    proptest! {
        #[test]
        fn epsilon_and_delta_are_inverse(ln_mu in -7.0f64..4.0, ln_delta in -40.0f64..-1.0) {
            let profile = GaussianProfile { mu: exp(ln_mu) };
            let delta = Delta::new(exp(ln_delta)).unwrap();
            let epsilon = profile.epsilon(delta).unwrap();
            prop_assert!(profile.delta(epsilon) <= delta.get());
            if epsilon.get() > 1e-9 {
                let less = Epsilon::new(epsilon.get() * (1.0 - 1e-8)).unwrap();
                prop_assert!(profile.delta(less) > delta.get());
            }
            prop_assert!(GaussianProfile::largest(epsilon, delta).mu() >= profile.mu * (1.0 - 1e-9));
        }

        #[test]
        fn delta_forms_agree_at_their_switch(epsilon in 1e-6f64..3.0) {
            let below = GaussianProfile { mu: 0.35 * (1.0 - 1e-12) };
            let above = GaussianProfile { mu: 0.35 };
            let epsilon = Epsilon::new(epsilon).unwrap();
            let a = below.ln_delta(epsilon);
            let b = above.ln_delta(epsilon);
            prop_assert!((a - b).abs() < 1e-9, "{} {}", a, b);
        }
    }

    #[test]
    fn delta_of_tiny_mu_keeps_digits() {
        // A μ so small that the bracket is all cancellation: δ(ε) at ε = μ²/2 is about μ φ(0).
        let mu = 1e-9;
        let profile = GaussianProfile { mu };
        let expected = mu * 0.398_942_280_401_432_7;
        let got = profile.delta(Epsilon::new(mu * mu / 2.0).unwrap());
        assert!((got / expected - 1.0).abs() < 1e-8, "{got:e}");
    }
}
