//! Tilted parts: mean, variance and log-mgf of Σ e^{θl} p(l), and the tilt that moves the sum to the requested point.

use libm::{exp, log};

use super::grid::GridPart;

/// Mean, variance and log-mgf of the tilted sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct TiltedMoments {
    /// ln E e^{θL}.
    pub(super) ln_mgf: f64,
    /// In nats.
    pub(super) mean: f64,
    /// In nats².
    pub(super) variance: f64,
    /// Largest variance of a single step.
    pub(super) single: f64,
}

/// The strongest tilt: beyond, every mass but the greatest vanishes.
const MOST_TILT: f64 = 4000.0;

/// Largest number of masses that share one exponential.
const BLOCK: usize = 64;
/// The exponents of a block are less far apart: e^±600 keeps all its digits, e^±709 does not.
const SPAN: f64 = 600.0;

/// Returns the number of masses of a grid that may share one exponential under a tilt. A strong tilt on a coarse grid
/// leaves one: a mass may be negligible at the start of a block and dominant at its end.
pub(super) fn block(theta: f64, step: f64) -> usize {
    if theta.abs() * step * BLOCK as f64 <= SPAN { BLOCK } else { 1 }
}

impl GridPart {
    /// Returns mean, variance and log-mgf of one tilted step.
    pub(super) fn moments(&self, theta: f64) -> TiltedMoments {
        // The exponent is greatest at an end; its masses dominate the sum, so scale by the largest exponent.
        let shift = (theta * self.loss(0)).max(theta * self.loss(self.masses.len() - 1));
        let size = block(theta, self.step);
        // e^{θhi}, and times i and i²: with them every block is three sums of products.
        let powers: [f64; BLOCK] =
            std::array::from_fn(|i| if i < size { exp(theta * self.step * i as f64) } else { 0.0 });
        let once: [f64; BLOCK] = std::array::from_fn(|i| powers[i] * i as f64);
        let twice: [f64; BLOCK] = std::array::from_fn(|i| once[i] * i as f64);
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (block, masses) in self.masses.chunks(size).enumerate() {
            let start = (block * size) as f64;
            let weight = exp(theta * self.loss(block * size) - shift);
            let [here, once, twice] = [&powers, &once, &twice].map(|table| weight * dot(masses, table));
            sum += here;
            first += once + start * here;
            second += twice + start * (2.0 * once + start * here);
        }
        let mean = first / sum;
        let variance = (second / sum - mean * mean).max(0.0) * self.step * self.step;
        TiltedMoments { ln_mgf: shift + log(sum), mean: self.loss(0) + mean * self.step, variance, single: variance }
    }
}

/// Returns Σ aᵢbᵢ over the shorter of both, in four sums.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let a_fours = a.chunks_exact(4);
    let b_fours = b.chunks_exact(4);
    let rest: f64 = a_fours.remainder().iter().zip(&b[a.len() - a.len() % 4..]).map(|(a, b)| a * b).sum();
    for (a, b) in a_fours.zip(b_fours) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Returns Σ T K(θ) with its first two derivatives.
pub(super) fn moments(parts: &[GridPart], theta: f64) -> TiltedMoments {
    let nothing = TiltedMoments { ln_mgf: 0.0, mean: 0.0, variance: 0.0, single: 0.0 };
    parts.iter().fold(nothing, |total, part| {
        let one = part.moments(theta);
        let count = part.count as f64;
        TiltedMoments {
            ln_mgf: total.ln_mgf + count * one.ln_mgf,
            mean: total.mean + count * one.mean,
            variance: total.variance + count * one.variance,
            single: total.single.max(one.single),
        }
    })
}

impl TiltedMoments {
    /// Returns ln of E[(1 − e^{ε−L})⁺] at ε = the tilted mean, for a locally normal sum: the saddle-point estimate of
    /// ln δ.
    pub(super) fn ln_delta(&self, theta: f64, step: f64) -> f64 {
        let spread = self.variance.sqrt().max(step);
        self.ln_mgf - theta * self.mean - log(1.0 + theta * spread * 2.5) - log(1.0 + (theta + 1.0) * spread)
            + log(spread.min(1.0))
    }
}

/// Returns the tilt whose window answers δ: the tilt at which the saddle-point estimate of ln δ is the requested one.
pub(super) fn tilt_for_delta(parts: &[GridPart], ln_delta: f64) -> f64 {
    let top = GreatestLoss::from_parts(parts);
    let first = moments(parts, 0.0);
    let start = (-2.0 * ln_delta / first.variance.max(parts[0].step * parts[0].step)).sqrt();
    search(start, |theta| {
        let at = moments(parts, theta);
        let over = at.ln_delta(theta, parts[0].step) - ln_delta;
        (over <= 0.0 || top.holds_most(theta, at.ln_mgf), theta + over / (theta * at.variance))
    })
}

/// Returns the tilt whose mean is ε; at least 0.
pub(super) fn tilt_for_epsilon(parts: &[GridPart], epsilon: f64, start: f64) -> f64 {
    let top = GreatestLoss::from_parts(parts);
    search(start, |theta| {
        let at = moments(parts, theta);
        (at.mean >= epsilon || top.holds_most(theta, at.ln_mgf), theta + (epsilon - at.mean) / at.variance)
    })
}

/// Returns true if δ(ε) is at most `delta` by Chernoff's bound alone. This avoids composing a direction that cannot
/// matter.
pub(super) fn surely_meets(parts: &[GridPart], epsilon: f64, delta: f64, start: f64) -> bool {
    let theta = tilt_for_epsilon(parts, epsilon, start);
    let infinite: f64 = parts.iter().map(|part| part.count as f64 * part.infinite).sum();
    exp(moments(parts, theta).ln_mgf - theta * epsilon) * (1.0 + 1e-9) + infinite <= delta
}

/// The greatest loss of the sum and its mass. A tilt that has moved nearly all mass there cannot move more: bounded
/// losses (randomized response, Laplace) would otherwise be tilted without end.
pub(super) struct GreatestLoss {
    /// The greatest loss of the sum.
    pub(super) loss: f64,
    ln_mass: f64,
}

impl GreatestLoss {
    pub(super) fn from_parts(parts: &[GridPart]) -> Self {
        let mut top = Self { loss: 0.0, ln_mass: 0.0 };
        for part in parts {
            let last = part.masses.iter().rposition(|mass| *mass > 0.0).unwrap_or(0);
            top.loss += part.count as f64 * part.loss(last);
            top.ln_mass += part.count as f64 * log(part.masses[last]);
        }
        top
    }

    fn holds_most(&self, theta: f64, ln_mgf: f64) -> bool {
        ln_mgf <= theta * self.loss + self.ln_mass + 1e-3
    }
}

/// Returns roughly the least θ ≥ 0 (two digits suffice for a tilt) at which a monotone test holds. `at` returns the
/// result of the test, and the next point of Newton's method, which is used while it stays inside the bracket.
fn search(start: f64, at: impl Fn(f64) -> (bool, f64)) -> f64 {
    if at(0.0).0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut theta = if start > 0.0 { start.min(MOST_TILT) } else { 1.0 };
    for _ in 0..60 {
        let (enough, next) = at(theta);
        if enough {
            high = theta;
        } else if theta >= MOST_TILT {
            break;
        } else {
            low = theta;
        }
        if (next - theta).abs() <= 5e-3 * theta || (high.is_finite() && high - low <= 1e-2 * high) {
            break;
        }
        theta = if next > low && next < high {
            // Far jumps are guesses.
            next.clamp(0.25 * theta, 4.0 * theta)
        } else if high.is_finite() {
            0.5 * (low + high)
        } else {
            2.0 * theta
        };
        theta = theta.min(MOST_TILT);
    }
    theta
}
