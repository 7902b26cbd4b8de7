//! Composition by one tilted Fourier transform.
//!
//! A plain transform has round-off of about 1e-16 everywhere, which is not small against δ = 1e-10. Tilting every part by
//! e^{θl} moves the mass of the sum to the ε asked about, so that the round-off becomes relative to the tail.

use libm::{atan2, ceil, exp, expm1, hypot, log, rint, sincos};

use super::fft::Fourier;
use super::grid::Part;

/// The composed loss near one ε: masses on a window of the grid, tilted by θ.
pub(super) struct Window {
    step: f64,
    /// The index of the first mass, a whole number.
    low: f64,
    tilted: Vec<f64>,
    theta: f64,
    /// ln of the factor that undoes the tilt at loss 0.
    ln_scale: f64,
    /// Round-off and aliasing, per point.
    slack: f64,
    /// The composed mass at infinity.
    infinite: f64,
    /// No sum is above this.
    most: f64,
}

/// Where the answer lies.
pub(super) enum Found {
    /// The least ε.
    At(f64),
    /// Below the window: it was tilted too far.
    Below,
    /// Nowhere: the mass at infinity is more than δ.
    Never,
}

/// Mean, variance and log-mgf of the tilted sum.
#[derive(Debug, Clone, Copy)]
struct Moments {
    ln_mgf: f64,
    mean: f64,
    variance: f64,
    /// Largest variance of a single step.
    single: f64,
}

/// Windows longer than this are refused.
const MOST_LENGTH: usize = 1 << 21;

/// No tilt is stronger: beyond, every mass but the greatest is gone.
const MOST_TILT: f64 = 4000.0;

/// Σ T K(θ) with its first two derivatives.
fn moments(parts: &[Part], theta: f64) -> Moments {
    let mut total = Moments { ln_mgf: 0.0, mean: 0.0, variance: 0.0, single: 0.0 };
    for part in parts {
        let loss = |j: usize| part.loss(j);
        // The exponent is greatest at an end; its masses decide where the sum lives, so scale by the largest exponent.
        let shift = (theta * loss(0)).max(theta * loss(part.masses.len() - 1));
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        let origin = loss(0);
        // e^{θl} by repeated multiplication, refreshed often enough to keep its digits.
        let ratio = exp(theta * part.step);
        let mut weight = 0.0;
        for (j, mass) in part.masses.iter().enumerate() {
            weight = if j % 64 == 0 { exp(theta * loss(j) - shift) } else { weight * ratio };
            let (here, distance) = (mass * weight, loss(j) - origin);
            sum += here;
            first += here * distance;
            second += here * distance * distance;
        }
        let mean = first / sum;
        let variance = (second / sum - mean * mean).max(0.0);
        let count = part.count as f64;
        total.ln_mgf += count * (shift + log(sum));
        total.mean += count * (origin + mean);
        total.variance += count * variance;
        total.single = total.single.max(variance);
    }
    total
}

/// The tilt whose window answers δ: where the saddle-point estimate of ln δ is the one asked for.
pub(super) fn tilt_for_delta(parts: &[Part], ln_delta: f64) -> f64 {
    let estimate = |theta: f64| {
        let m = moments(parts, theta);
        // ln of E[(1 − e^{ε−L})⁺] at ε = the tilted mean, for a locally normal sum.
        let spread = m.variance.sqrt().max(parts[0].step);
        m.ln_mgf - theta * m.mean - log(1.0 + theta * spread * 2.5) - log(1.0 + (theta + 1.0) * spread)
            + log(spread.min(1.0))
    };
    let top = Top::of(parts);
    bisect(|theta| estimate(theta) <= ln_delta || top.holds_most(theta, moments(parts, theta).ln_mgf))
}

/// The tilt whose mean is ε; none below 0.
pub(super) fn tilt_for_epsilon(parts: &[Part], epsilon: f64) -> f64 {
    let top = Top::of(parts);
    bisect(|theta| {
        let at = moments(parts, theta);
        at.mean >= epsilon || top.holds_most(theta, at.ln_mgf)
    })
}

/// Is δ(ε) at most `delta` by Chernoff's bound alone? Saves composing a direction that cannot matter.
pub(super) fn surely_meets(parts: &[Part], epsilon: f64, delta: f64) -> bool {
    let theta = tilt_for_epsilon(parts, epsilon);
    let infinite: f64 = parts.iter().map(|part| part.count as f64 * part.infinite).sum();
    exp(moments(parts, theta).ln_mgf - theta * epsilon) * (1.0 + 1e-9) + infinite <= delta
}

/// The greatest loss of the sum and its mass. A tilt that has put nearly everything there has done all it can: losses
/// with an end (randomized response, Laplace) would otherwise be tilted without end.
struct Top {
    loss: f64,
    ln_mass: f64,
}

impl Top {
    fn of(parts: &[Part]) -> Self {
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

/// The least θ ≥ 0 (to three digits, which is plenty for a tilt) at which a monotone test holds.
fn bisect(enough: impl Fn(f64) -> bool) -> f64 {
    if enough(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while !enough(high) {
        (low, high) = (high, 2.0 * high);
        if high > MOST_TILT {
            return low;
        }
    }
    while high - low > 1e-3 * high {
        let middle = 0.5 * (low + high);
        if enough(middle) { high = middle } else { low = middle }
    }
    high
}

impl Window {
    /// Composes all parts with the tilt θ. Nothing when the window would be too long.
    pub(super) fn new(parts: &[Part], theta: f64) -> Option<Self> {
        let step = parts[0].step;
        let at = moments(parts, theta);
        let width = 19.0 * at.variance.sqrt() + 20.0 * at.single.sqrt() + 256.0 * step;
        let mut length = (ceil(width / step) as usize).next_power_of_two();
        // Chernoff: what lies outside must not matter. Jumps larger than the spread can make it matter.
        while outside(parts, theta, &at, 0.5 * step * length as f64) > 1e-17 {
            length *= 2;
            if length > MOST_LENGTH {
                return None;
            }
        }
        let tilted = convolve(parts, theta, length);
        let low = rint(at.mean / step) - (length / 2) as f64;
        let shift = wrapped(low, length);
        let tilted: Vec<f64> = (0..length).map(|j| tilted[(shift + j) % length]).collect();
        let greatest = tilted.iter().fold(0.0f64, |greatest, mass| greatest.max(mass.abs()));
        let steps: u64 = parts.iter().map(|part| part.count).sum();
        let stays = parts.iter().map(|part| part.count as f64 * libm::log1p(-part.infinite)).sum::<f64>();
        Some(Self {
            step,
            low,
            theta,
            ln_scale: at.ln_mgf,
            slack: greatest * (length as f64 + steps as f64) * 4e-16,
            tilted,
            infinite: -expm1(stays),
            most: Top::of(parts).loss + 0.5 * step,
        })
    }

    /// The loss of point j, and what undoes the tilt there.
    fn undone(&self, j: usize) -> (f64, f64) {
        let loss = (self.low + j as f64) * self.step;
        (loss, exp(self.ln_scale - self.theta * loss))
    }

    /// Walks down from the top with the mass above each loss l, and that mass under Q times e^l, so that their difference
    /// is δ(l); until `stop` says where to. Round-off counts as mass. Gives the loss reached and both sums.
    fn descend(&self, mut stop: impl FnMut(f64, f64, f64) -> bool) -> Option<(f64, f64, f64)> {
        let (mut mass, mut shrunk) = (0.0, 0.0);
        let fall = exp(-self.step);
        for j in (0..self.tilted.len()).rev() {
            let (loss, factor) = self.undone(j);
            shrunk *= fall;
            if stop(loss, mass, shrunk) {
                return Some((loss, mass, shrunk));
            }
            if loss > self.most {
                continue;
            }
            let here = (self.tilted[j] + self.slack) * factor;
            mass += here;
            shrunk += here;
        }
        None
    }

    /// The least ε ≥ 0 at which δ(ε) is at most `delta`.
    pub(super) fn epsilon(&self, delta: f64) -> Found {
        let room = (delta - self.infinite) * (1.0 - 1e-10);
        if room <= 0.0 {
            return Found::Never;
        }
        let found = self.descend(|loss, mass, shrunk| loss < 0.0 || mass - shrunk > room);
        let Some((loss, mass, shrunk)) = found else { return Found::Below };
        // Between the point found and the one above, δ(ε) = mass − e^{ε−loss} · shrunk exactly.
        let above = if mass <= room { 0.0 } else { log((mass - room) / shrunk) };
        Found::At((loss + above).clamp(loss.max(0.0), (loss + self.step).max(0.0)))
    }

    /// δ(ε), from above; `None` when ε is outside the window.
    pub(super) fn delta(&self, epsilon: f64) -> Option<f64> {
        let (loss, mass, shrunk) = self.descend(|loss, _, _| loss <= epsilon)?;
        let inside = (mass - exp(epsilon - loss) * shrunk).max(0.0) * (1.0 + 1e-10);
        Some((self.infinite + inside).min(1.0))
    }

    /// Is a loss well inside the window?
    pub(super) fn holds(&self, loss: f64) -> bool {
        let position = loss / self.step - self.low;
        let length = self.tilted.len() as f64;
        position > 0.2 * length && position < 0.8 * length
    }
}

/// A bound on the tilted mass that lies further than `reach` from the mean, by the best of a few Chernoff exponents.
fn outside(parts: &[Part], theta: f64, at: &Moments, reach: f64) -> f64 {
    let unit = 1.0 / at.variance.sqrt().max(parts[0].step);
    [-1.0, 1.0]
        .into_iter()
        .map(|side| {
            let bound = |exponent: i32| {
                let s = side * unit * libm::ldexp(1.0, exponent);
                moments(parts, theta + s).ln_mgf - at.ln_mgf - s * (at.mean + side * reach)
            };
            let best = [3, 2, 1, 0, -1, -2].into_iter().map(bound).fold(0.0f64, f64::min);
            exp(best)
        })
        .sum()
}

/// A whole number modulo the length.
fn wrapped(index: f64, length: usize) -> usize {
    let length = length as f64;
    (index - length * libm::floor(index / length)) as usize
}

/// Π of the parts' transforms to their counts, transformed back: the tilted sum, by index modulo the length.
fn convolve(parts: &[Part], theta: f64, length: usize) -> Vec<f64> {
    let fourier = Fourier::new(length);
    // ln|F| and arg F, summed over the parts; only half the frequencies of a real signal are needed.
    let mut product = vec![(0.0, 0.0); length / 2 + 1];
    for part in parts {
        let own = moments(std::slice::from_ref(&Part { count: 1, ..part.clone() }), theta).ln_mgf;
        let mut points = vec![(0.0, 0.0); length];
        let first = wrapped(part.low as f64, length);
        for (j, mass) in part.masses.iter().enumerate() {
            points[(first + j) % length].0 += mass * exp(theta * part.loss(j) - own);
        }
        fourier.forward(&mut points);
        let count = part.count as f64;
        for (sum, (re, im)) in product.iter_mut().zip(&points) {
            sum.0 += count * log(hypot(*re, *im));
            sum.1 += count * atan2(*im, *re);
        }
    }
    let mut points = vec![(0.0, 0.0); length];
    for (k, &(ln_size, angle)) in product.iter().enumerate() {
        let ((sin, cos), size) = (sincos(angle), exp(ln_size));
        let point = if size == 0.0 { (0.0, 0.0) } else { (size * cos, size * sin) };
        // The inverse is the forward transform of the conjugate.
        points[k] = (point.0, -point.1);
        points[(length - k) % length] = if k == 0 { points[0] } else { point };
    }
    if length > 1 {
        // The middle frequency of a real signal is its own conjugate.
        points[length / 2].1 = 0.0;
    }
    fourier.forward(&mut points);
    points.into_iter().map(|(re, _)| re / length as f64).collect()
}
