//! The loops, and what Adam corrects its moments by.

use super::{BETA_1, BETA_2, power};

/// ε of Adam.
const EPSILON: f64 = 1e-8;
/// A second moment that is less than so many standard errors above the noise is not told from noise.
const ERRORS: f64 = 4.0;

/// v = m v + g, θ = θ − η v (Sutskever et al. 2013, as PyTorch writes it).
#[inline(always)]
pub(super) fn sgd(rate: f64, momentum: f64, parameters: &mut [f32], gradient: &[f32], velocity: &mut [f32]) {
    for ((parameter, gradient), velocity) in parameters.iter_mut().zip(gradient).zip(velocity) {
        *velocity = (momentum * f64::from(*velocity) + f64::from(*gradient)) as f32;
        *parameter = (f64::from(*parameter) - rate * f64::from(*velocity)) as f32;
    }
}

/// What a step of Adam needs beside the moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Corrections {
    rate: f64,
    /// 1 − β₁ᵗ and 1 − β₂ᵗ: moments begin at 0, which these undo (Kingma and Ba 2015, section 3).
    unbias: (f64, f64),
    /// What of the unbiased second moment is the variance of noise.
    noise: f64,
    /// The least second moment that is believed.
    floor: f64,
}

impl Corrections {
    /// Of Adam as it is.
    pub(super) fn plain(rate: f64, steps: u32) -> Self {
        let unbias = (1.0 - power(BETA_1, steps), 1.0 - power(BETA_2, steps));
        Self { rate, unbias, noise: 0.0, floor: 0.0 }
    }

    /// Of Adam on gradients with noise of known variance, `noise` being the moving mean of that variance, not unbiased
    /// (Tang, Shpilevskiy and Lécuyer 2024, "DP-AdamBC", equation 3, there for one party and a constant variance).
    ///
    /// A coordinate of the gradient is g + n with E n = 0, E n² = φ and n independent of g, so E v̂ = E ĝ² + φ: under strong
    /// noise the denominator is the same √φ everywhere, and Adam no longer adapts. v̂ − φ estimates the moment of g alone.
    ///
    /// It estimates it with an error: for g = 0 the terms of v̂ have variance 2φ² and weights (1 − β₂) β₂^{t−s} / (1 − β₂ᵗ),
    /// of which the squares sum to (1 − β₂)(1 + β₂ᵗ) / ((1 + β₂)(1 − β₂ᵗ)). What is not `ERRORS` times the root of that
    /// above φ counts as that much: it follows the noise, so no scale has to be chosen by looking at data.
    pub(super) fn of_noise(rate: f64, steps: u32, noise: f64) -> Self {
        let plain = Self::plain(rate, steps);
        let past = power(BETA_2, steps);
        let noise = noise / plain.unbias.1;
        let spread = 2.0 * (1.0 - BETA_2) * (1.0 + past) / ((1.0 + BETA_2) * plain.unbias.1);
        Self { noise, floor: ERRORS * noise * spread.sqrt(), ..plain }
    }

    /// The estimate of the gradient's own second moment from a moving mean of squares. Without noise, exactly Adam's.
    #[inline(always)]
    pub(super) fn signal(&self, second: f64) -> f64 {
        let signal = second / self.unbias.1 - self.noise;
        if signal > self.floor { signal } else { self.floor }
    }
}

/// Kingma and Ba 2015, algorithm 1, with the second moment corrected for noise.
#[inline(always)]
pub(super) fn adam(
    corrections: Corrections,
    parameters: &mut [f32],
    gradient: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    let moments = first.iter_mut().zip(second);
    for ((parameter, gradient), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
        let gradient = f64::from(*gradient);
        *first = (BETA_1 * f64::from(*first) + (1.0 - BETA_1) * gradient) as f32;
        *second = (BETA_2 * f64::from(*second) + (1.0 - BETA_2) * gradient * gradient) as f32;
        let scale = corrections.signal(f64::from(*second)).sqrt() + EPSILON;
        let step = corrections.rate * f64::from(*first) / corrections.unbias.0 / scale;
        *parameter = (f64::from(*parameter) - step) as f32;
    }
}
