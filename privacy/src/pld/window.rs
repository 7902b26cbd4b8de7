//! Composition by one tilted Fourier transform.
//!
//! A plain transform has round-off of about 1e-16 everywhere, which is not small against δ = 1e-10. Tilting every part
//! by e^{θl} moves the mass of the sum to the requested ε, so that the round-off becomes relative to the tail.

use libm::{ceil, exp, expm1, log, log1p, rint};

use super::fft::{ComplexVector, FourierBuffers, FourierTransform};
use super::grid::GridPart;
use super::moments::{GreatestLoss, TiltedMoments, block, moments};

/// Roots and buffers, reused by the next window.
#[derive(Default)]
pub(super) struct WindowBuffers {
    fourier: Option<FourierTransform>,
    room: FourierBuffers,
    points: Vec<f64>,
    spectrum: ComplexVector,
    product: ComplexVector,
}

/// The composed loss near one ε: masses on a window of the grid, tilted by θ.
pub(super) struct TiltedWindow {
    pub(super) step: f64,
    /// The index of the first mass, a whole number.
    pub(super) low: f64,
    pub(super) tilted: Vec<f64>,
    theta: f64,
    /// ln of the factor that undoes the tilt at loss 0.
    pub(super) ln_scale: f64,
    /// Round-off, per point.
    slack: f64,
    /// The composed mass at infinity, and the mass above the window.
    pub(super) infinite: f64,
    /// The greatest loss of the sum.
    pub(super) most: f64,
}

/// The position of an answer.
pub(super) enum AnswerPosition {
    /// The least ε.
    At(f64),
    /// Below the window: the tilt was too strong.
    Below,
    /// No answer: the mass at infinity is more than δ.
    Never,
}

/// Longest window.
const MOST_LENGTH: usize = 1 << 21;

/// The part of δ that lies outside a window.
const OUTSIDE: f64 = 1e-9;

impl TiltedWindow {
    /// Composes all parts with the tilt θ, for a δ of about this much. `None` when the window would be too long.
    pub(super) fn new(parts: &[GridPart], theta: f64, delta: f64, workshop: &mut WindowBuffers) -> Option<Self> {
        let step = parts[0].step;
        let at = moments(parts, theta);
        let most = GreatestLoss::from_parts(parts).loss + 0.5 * step;
        // A first size; the mass outside decides.
        let width = 9.0 * at.variance.sqrt() + 8.0 * at.single.sqrt() + 64.0 * step;
        let points = ceil(width / step);
        // This also rejects NaN.
        if points.is_nan() || points > MOST_LENGTH as f64 {
            return None;
        }
        let mut length = (points as usize).next_power_of_two();
        let (low, above) = loop {
            if length > MOST_LENGTH {
                return None;
            }
            let low = rint(at.mean / step) - (length / 2) as f64;
            let edges = WindowEdges { bottom: low * step, top: (low + length as f64 - 1.0) * step, most };
            if let Some(above) = edges.above(parts, theta, &at, OUTSIDE * delta)
                && edges.wraps_little(parts, theta, &at, OUTSIDE * delta)
            {
                break (low, above);
            }
            length *= 2;
        };
        let mut tilted = workshop.convolve(parts, theta, length);
        tilted.rotate_left(wrapped(low, length));
        let greatest = tilted.iter().fold(0.0f64, |greatest, mass| greatest.max(mass.abs()));
        let steps: u64 = parts.iter().map(|part| part.count).sum();
        let stays = parts.iter().map(|part| part.count as f64 * log1p(-part.infinite)).sum::<f64>();
        Some(Self {
            step,
            low,
            theta,
            ln_scale: at.ln_mgf,
            // The error of a transform, and of every spectrum times its power.
            slack: greatest * (length as f64 * 4e-16 + steps as f64 * 4e-15),
            tilted,
            infinite: above - expm1(stays),
            most,
        })
    }

    /// Composes all parts without a tilt, on a window outside of which is at most this mass. `None` when it would be too long.
    pub(super) fn untilted(parts: &[GridPart], outside: f64, workshop: &mut WindowBuffers) -> Option<Self> {
        Self::new(parts, 0.0, outside / OUTSIDE, workshop)
    }

    /// Descends from the top with the mass above each loss l, and that mass under Q times e^l, so that their difference
    /// is δ(l), until `stop` returns true. Round-off counts as mass. Returns the final loss and both sums.
    fn descend(&self, mut stop: impl FnMut(f64, f64, f64) -> bool) -> Option<(f64, f64, f64)> {
        let (mut mass, mut shrunk, mut factor) = (0.0, 0.0, 0.0);
        let fall = exp(-self.step);
        let rise = exp(self.theta * self.step);
        let last = self.tilted.len() - 1;
        let block = block(self.theta, self.step);
        for j in (0..=last).rev() {
            let loss = (self.low + j as f64) * self.step;
            // The factor that undoes the tilt, by repeated multiplication, recomputed often enough to keep its digits.
            let fresh = (last - j).is_multiple_of(block);
            factor = if fresh { exp(self.ln_scale - self.theta * loss) } else { factor * rise };
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

    /// Returns the least ε ≥ 0 at which δ(ε) is at most `delta`.
    pub(super) fn epsilon(&self, delta: f64) -> AnswerPosition {
        let room = (delta - self.infinite) * (1.0 - 1e-10);
        if room <= 0.0 {
            return AnswerPosition::Never;
        }
        let stop_point = self.descend(|loss, mass, shrunk| loss < 0.0 || mass - shrunk > room);
        let Some((loss, mass, shrunk)) = stop_point else { return AnswerPosition::Below };
        // Between the point of the descent and the one above, δ(ε) = mass − e^{ε−loss} · shrunk exactly.
        let above = if mass <= room { 0.0 } else { log((mass - room) / shrunk) };
        AnswerPosition::At((loss + above).clamp(loss.max(0.0), (loss + self.step).max(0.0)))
    }

    /// Returns an upper bound of δ(ε); `None` when ε is outside the window.
    pub(super) fn delta(&self, epsilon: f64) -> Option<f64> {
        let (loss, mass, shrunk) = self.descend(|loss, _, _| loss <= epsilon)?;
        let inside = (mass - exp(epsilon - loss) * shrunk).max(0.0) * (1.0 + 1e-10);
        Some((self.infinite + inside).min(1.0))
    }

    /// Returns true if a loss is well inside the window.
    pub(super) fn holds(&self, loss: f64) -> bool {
        let position = loss / self.step - self.low;
        let length = self.tilted.len() as f64;
        position > 0.25 * length && position < 0.75 * length
    }
}

/// The ends of a window, in nats. A transform wraps the mass outside to the other end.
struct WindowEdges {
    bottom: f64,
    top: f64,
    /// The greatest loss of the sum.
    most: f64,
}

/// Distances from the mean at which Chernoff exponents are tried, in parts of the best one for a normal sum. Jumps
/// larger than the spread need smaller ones.
const TRIES: [f64; 10] = [1.0, 0.5, 2.0, 0.25, 0.125, 0.06, 0.02, 0.006, 0.002, 0.0006];

impl WindowEdges {
    /// Returns a bound on Pr[L > top], which the window loses and which counts as infinite; `None` unless it is below
    /// `little` and the mass that wraps in above the answer is, too.
    fn above(&self, parts: &[GridPart], theta: f64, at: &TiltedMoments, little: f64) -> Option<f64> {
        if self.top >= self.most {
            return Some(0.0);
        }
        // Mass from beyond this would be counted above the mean.
        let far = at.mean + (self.top - self.bottom);
        let best = (self.top - at.mean) / at.variance.max(f64::MIN_POSITIVE);
        let (mut lost, mut back) = (1.0f64, 1.0f64);
        for part in TRIES {
            let more = part * best;
            let ln_mgf = moments(parts, theta + more).ln_mgf;
            lost = lost.min(exp(ln_mgf - (theta + more) * self.top));
            back = back.min(exp(ln_mgf - more * far - theta * at.mean));
            if lost <= little && back <= little {
                return Some(lost * (1.0 + 1e-9));
            }
        }
        None
    }

    /// Returns true if the mass below the window, which wraps in above the answer, adds at most `little`. (It is never
    /// lost, only counted too high.) Shifting all mass up by the window's width scales it by e^{−θ·width}; or its
    /// amount is small.
    fn wraps_little(&self, parts: &[GridPart], theta: f64, at: &TiltedMoments, little: f64) -> bool {
        if exp(-theta * (self.top - self.bottom)) <= little {
            return true;
        }
        let best = (at.mean - self.bottom) / at.variance.max(f64::MIN_POSITIVE);
        TRIES.iter().any(|part| {
            let less = part * best;
            exp(moments(parts, theta - less).ln_mgf + less * self.bottom - theta * at.mean) <= little
        })
    }
}

/// Returns a whole number modulo the length.
fn wrapped(index: f64, length: usize) -> usize {
    let length = length as f64;
    (index - length * libm::floor(index / length)) as usize
}

impl WindowBuffers {
    /// Returns the mean of the absolute values of the last spectrum: a bound on the greatest mass of the last sum.
    pub(super) fn mean_amplitude(&self) -> f64 {
        let amplitude = |k: usize| libm::hypot(self.product.re[k], self.product.im[k]);
        let half = self.product.re.len() - 1;
        let inner: f64 = (1..half).map(amplitude).sum();
        (amplitude(0) + amplitude(half) + 2.0 * inner) / (2.0 * half as f64)
    }

    /// Returns Π of the parts' spectra to their counts, transformed back: the tilted sum, by index modulo the length.
    fn convolve(&mut self, parts: &[GridPart], theta: f64, length: usize) -> Vec<f64> {
        let fourier = match self.fourier.take() {
            Some(known) if known.length() == length => known,
            _ => FourierTransform::new(length),
        };
        self.points.resize(length, 0.0);
        for (n, part) in parts.iter().enumerate() {
            spread(part, theta, &mut self.points);
            if n == 0 {
                fourier.forward(&self.points, &mut self.room, &mut self.product);
                raise(&mut self.product, part.count);
            } else {
                fourier.forward(&self.points, &mut self.room, &mut self.spectrum);
                times(&mut self.product, &self.spectrum, part.count);
            }
        }
        let mut sum = vec![0.0; length];
        fourier.inverse(&self.product, &mut self.room, &mut sum);
        self.fourier = Some(fourier);
        sum
    }
}

/// Adds a part's tilted masses by their index modulo the length.
fn spread(part: &GridPart, theta: f64, points: &mut [f64]) {
    let own = part.moments(theta).ln_mgf;
    let rise = exp(theta * part.step);
    let mut at = wrapped(part.low as f64, points.len());
    let mut weight = 0.0;
    let block = block(theta, part.step);
    points.fill(0.0);
    for (j, mass) in part.masses.iter().enumerate() {
        weight = if j.is_multiple_of(block) { exp(theta * part.loss(j) - own) } else { weight * rise };
        points[at] += mass * weight;
        at = if at + 1 == points.len() { 0 } else { at + 1 };
    }
}

/// Raises a spectrum to a power.
fn raise(spectrum: &mut ComplexVector, count: u64) {
    for (re, im) in spectrum.both() {
        (*re, *im) = power((*re, *im), count);
    }
}

/// Multiplies by a spectrum to a power; negligible factors give 0.
fn times(product: &mut ComplexVector, spectrum: &ComplexVector, count: u64) {
    for ((re, im), (other_re, other_im)) in product.both().zip(spectrum.re.iter().zip(&spectrum.im)) {
        if *re == 0.0 && *im == 0.0 {
            continue;
        }
        let raised = power((*other_re, *other_im), count);
        (*re, *im) = (*re * raised.0 - *im * raised.1, *re * raised.1 + *im * raised.0);
        if *re * *re + *im * *im < NOTHING {
            (*re, *im) = (0.0, 0.0);
        }
    }
}

/// The square of an amplitude that is negligible against the slack of a window: of a distribution, the greatest is 1.
const NOTHING: f64 = 1e-50;

/// Returns zⁿ by repeated squaring; values below [`NOTHING`] are 0.
fn power(mut base: (f64, f64), mut count: u64) -> (f64, f64) {
    let mut result = (1.0, 0.0);
    loop {
        if count & 1 == 1 {
            result = (result.0 * base.0 - result.1 * base.1, result.0 * base.1 + result.1 * base.0);
        }
        count >>= 1;
        if count == 0 {
            return result;
        }
        base = (base.0 * base.0 - base.1 * base.1, 2.0 * base.0 * base.1);
        if base.0 * base.0 + base.1 * base.1 < NOTHING {
            return (0.0, 0.0);
        }
    }
}
