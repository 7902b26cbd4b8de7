//! The whole profile of a composition at ε ≥ 0, from above: one transform without a tilt, with a proved bound on its error.
//!
//! A tilted window answers one question to many digits. A certificate compares whole curves, and has a δ₀ of 1e-12 or more
//! to spare, so round-off of 1e-13 is small against it. Every source of error is bounded and added.
//!
//! # Error bound
//!
//! Let T be the number of all steps, D̂ the computed profile of a step at the points of the grid, within a relative η of the
//! true one, and p̂ = p + Δ the masses made of it (`grid.rs`); p has the true profile at the points.
//!
//! * **Profiles.** Expand Π(p_i + Δ_i). A term with one Δ is Σ_m r(m) H_Δ(ε−m) for the true, positive r of all other steps:
//!   at most η H(ε), and there are T such terms. A term with k ≥ 2 of them is at most η κ^{k−1}, where κ_i = Σ|Δ_i| is at most
//!   4η ΣD̂/(1−e^{−h}), since a mass is made of three differences. So H ≤ (Ĥ + Tη(e^K − 1))/(1 − Tη), K = ΣT_iκ_i.
//! * **Transforms.** A spectrum F of masses that sum to 1 has absolute errors below η_F in every coefficient: each is a sum over
//!   paths of at most 12 passes with fewer than 16 roundings each. A factor with |F| ≥ ½ has a relative error of 2η_F, and the
//!   T-fold product G of e^{2Tη_F} − 1; where a factor is below ½, its power is wrong by at most Tη_F 0.51^{T−1}. The inverse
//!   is wrong by η_F mean|G| more. Every point gets the sum of these as mass.
//! * **Window.** The mass above the window counts as infinite (Chernoff); the mass below wraps in above, and only adds.
//! * **Between points** the true profile is convex in e^ε, so the chord of two upper bounds is an upper bound.

use libm::{exp, expm1, pow};

use super::grid::GridPart;
use super::window::{TiltedWindow, WindowBuffers};

/// η: the relative error of a step's profile (3e-13, `pair.rs`), and of a noise on a grid (2⁻⁴⁰).
const PROFILE_ERROR: f64 = 2e-12;
/// η_F: 12 passes of 16 roundings.
const TRANSFORM_ERROR: f64 = 2.2e-14;

/// Upper bounds of H(i·h) for i = 0, 1, ... Beyond the last the profile is at most the last value.
#[derive(Debug, Clone)]
pub(super) struct ComposedProfile {
    /// h in nats.
    pub(super) step: f64,
    /// The bounds, falling.
    pub(super) deltas: Vec<f64>,
}

/// Most points of a profile.
const MOST_POINTS: f64 = 2_097_152.0;

impl ComposedProfile {
    /// Composes the parts, which share one grid. The mass `outside` of a window is counted as infinite. `None` when the window
    /// would be too long, or the errors too large.
    pub(super) fn new(parts: &[GridPart], outside: f64, buffers: &mut WindowBuffers) -> Option<Self> {
        let window = TiltedWindow::untilted(parts, outside, buffers)?;
        let steps: f64 = parts.iter().map(|part| part.count as f64).sum();
        let of_steps = expm1(2.0 * steps * TRANSFORM_ERROR);
        let of_small = |part: &GridPart| part.count as f64 * TRANSFORM_ERROR * pow(0.51, part.count as f64 - 1.0);
        let small: f64 = parts.iter().map(of_small).sum();
        let slack = 1.01 * (buffers.mean_amplitude() * (of_steps + TRANSFORM_ERROR) + small);
        let spread: f64 = parts.iter().map(|part| part.count as f64 * part.variation(PROFILE_ERROR)).sum();
        let relative = steps * PROFILE_ERROR;
        let absolute = relative * expm1(spread);
        if !(spread <= 1.0 && relative <= 0.01) {
            return None;
        }
        let step = parts[0].step;
        let deltas = window.upper_profile(slack, MOST_POINTS)?;
        let deltas = deltas.into_iter().map(|delta| ((delta + absolute) / (1.0 - relative)).min(1.0)).collect();
        Some(Self { step, deltas })
    }

    /// Returns e^h − 1.
    pub(super) fn growth(&self) -> f64 {
        expm1(self.step)
    }
}

impl GridPart {
    /// Returns κ: a bound on the total variation of the error of the masses, for a relative error of the profile.
    fn variation(&self, error: f64) -> f64 {
        let sum: f64 = self.profile_sum();
        4.0 * error * (1.0 + sum / -expm1(-self.step))
    }
}

impl TiltedWindow {
    /// Returns upper bounds of δ at 0, h, 2h, ... up to the top of the window, with `slack` added to every mass; `None` when
    /// there are more than `most`.
    fn upper_profile(&self, slack: f64, most: f64) -> Option<Vec<f64>> {
        let length = self.tilted.len();
        let last = self.low + length as f64 - 1.0;
        if last.is_nan() || last > most {
            return None;
        }
        let factor = exp(self.ln_scale);
        let fall = exp(-self.step);
        let (mut mass, mut shrunk) = (0.0, 0.0);
        let mut deltas = Vec::new();
        let mut index = last.max(0.0);
        // Two roundings for every point, of sums that are at most these.
        let rounding = 4.0 * f64::EPSILON * (last.max(0.0) + 16.0);
        while index >= 0.0 {
            shrunk *= fall;
            deltas.push(self.infinite + (mass - shrunk).max(0.0) + rounding * mass);
            let at = index - self.low;
            if at >= 0.0 && at < length as f64 && index * self.step <= self.most {
                let here = (self.tilted[at as usize] + slack).max(0.0) * factor;
                mass += here;
                shrunk += here;
            }
            index -= 1.0;
        }
        deltas.reverse();
        Some(deltas)
    }
}
