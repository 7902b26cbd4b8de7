//! The loops, and the corrections of Adam's moments.

use super::{BETA_1, BETA_2, power};

/// ε of Adam.
const EPSILON: f64 = 1e-8;
/// A second moment less than this number of standard errors above the noise is not distinguished from noise.
const ERRORS: f64 = 4.0;

/// Computes v = m v + g, θ = θ − η v (Sutskever et al. 2013, in the form of PyTorch).
#[inline(always)]
pub(super) fn sgd(rate: f64, momentum: f64, parameters: &mut [f32], gradient: &[f32], velocity: &mut [f32]) {
    for ((parameter, gradient), velocity) in parameters.iter_mut().zip(gradient).zip(velocity) {
        *velocity = (momentum * f64::from(*velocity) + f64::from(*gradient)) as f32;
        *parameter = (f64::from(*parameter) - rate * f64::from(*velocity)) as f32;
    }
}

/// The numbers of a step of Adam besides the moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AdamCorrections {
    rate: f64,
    /// 1 − β₁ᵗ and 1 − β₂ᵗ, which correct the start of the moments at 0 (Kingma and Ba 2015, section 3).
    unbias: (f64, f64),
    /// The variance of noise in the unbiased second moment.
    noise: f64,
    /// The lower limit of the second moment.
    floor: f64,
}

impl AdamCorrections {
    /// Returns the corrections of plain Adam.
    pub(super) fn plain(rate: f64, steps: u32) -> Self {
        let unbias = (1.0 - power(BETA_1, steps), 1.0 - power(BETA_2, steps));
        Self { rate, unbias, noise: 0.0, floor: 0.0 }
    }

    /// Returns the corrections of Adam on gradients with noise of known variance. `noise` is the moving mean of that
    /// variance, not unbiased (Tang, Shpilevskiy and Lécuyer 2024, "DP-AdamBC", equation 3, there for one party and a
    /// constant variance).
    ///
    /// A coordinate of the gradient is g + n with E n = 0, E n² = φ and n independent of g, so E v̂ = E ĝ² + φ. Under
    /// strong noise the denominator is the same √φ everywhere, and Adam no longer adapts. v̂ − φ estimates the moment
    /// of g alone.
    ///
    /// The estimate has an error: for g = 0 the terms of v̂ have variance 2φ² and weights (1 − β₂) β₂^{t−s} / (1 −
    /// β₂ᵗ), of which the squares sum to (1 − β₂)(1 + β₂ᵗ) / ((1 + β₂)(1 − β₂ᵗ)). An estimate below `ERRORS` times the
    /// root of that variance counts as that much. The limit follows the noise, so no scale has to be chosen by
    /// inspecting data.
    pub(super) fn of_noise(rate: f64, steps: u32, noise: f64) -> Self {
        let plain = Self::plain(rate, steps);
        let past = power(BETA_2, steps);
        let noise = noise / plain.unbias.1;
        let spread = 2.0 * (1.0 - BETA_2) * (1.0 + past) / ((1.0 + BETA_2) * plain.unbias.1);
        Self { noise, floor: ERRORS * noise * spread.sqrt(), ..plain }
    }

    /// Returns the estimate of the gradient's own second moment from a moving mean of squares. Without noise it is
    /// exactly Adam's.
    #[inline(always)]
    pub(super) fn signal(&self, second: f64) -> f64 {
        let signal = second / self.unbias.1 - self.noise;
        if signal > self.floor { signal } else { self.floor }
    }
}

/// Takes a step by Kingma and Ba 2015, algorithm 1, with the second moment corrected for noise.
#[inline(always)]
pub(super) fn adam(
    corrections: AdamCorrections,
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
