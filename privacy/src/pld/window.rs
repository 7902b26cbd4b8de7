//! Composition by one tilted Fourier transform.
//!
//! A plain transform has round-off of about 1e-16 everywhere, which is not small against δ = 1e-10. Tilting every part by
//! e^{θl} moves the mass of the sum to the ε asked about, so that the round-off becomes relative to the tail.

use libm::{ceil, exp, expm1, log, log1p, rint};

use super::fft::{Fourier, Plane, Room};
use super::grid::Part;
use super::moments::{Moments, Top, block, moments};

/// Roots and memory, kept from one window to the next.
#[derive(Default)]
pub(super) struct Workshop {
    fourier: Option<Fourier>,
    room: Room,
    points: Vec<f64>,
    spectrum: Plane,
    product: Plane,
}

/// The composed loss near one ε: masses on a window of the grid, tilted by θ.
pub(super) struct Window {
    step: f64,
    /// The index of the first mass, a whole number.
    low: f64,
    tilted: Vec<f64>,
    theta: f64,
    /// ln of the factor that undoes the tilt at loss 0.
    ln_scale: f64,
    /// Round-off, per point.
    slack: f64,
    /// The composed mass at infinity, and what lies above the window.
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

/// Windows longer than this are refused.
const MOST_LENGTH: usize = 1 << 21;

/// The part of δ that lies outside a window.
const OUTSIDE: f64 = 1e-9;

impl Window {
    /// Composes all parts with the tilt θ, for a δ of about this much. Nothing when the window would be too long.
    pub(super) fn new(parts: &[Part], theta: f64, delta: f64, workshop: &mut Workshop) -> Option<Self> {
        let step = parts[0].step;
        let at = moments(parts, theta);
        let most = Top::of(parts).loss + 0.5 * step;
        // Tried for size; what lies outside decides.
        let width = 9.0 * at.variance.sqrt() + 8.0 * at.single.sqrt() + 64.0 * step;
        let points = ceil(width / step);
        // Also what is no number at all.
        if points.is_nan() || points > MOST_LENGTH as f64 {
            return None;
        }
        let mut length = (points as usize).next_power_of_two();
        let (low, above) = loop {
            if length > MOST_LENGTH {
                return None;
            }
            let low = rint(at.mean / step) - (length / 2) as f64;
            let edges = Edges { bottom: low * step, top: (low + length as f64 - 1.0) * step, most };
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

    /// Walks down from the top with the mass above each loss l, and that mass under Q times e^l, so that their difference
    /// is δ(l); until `stop` says where to. Round-off counts as mass. Gives the loss reached and both sums.
    fn descend(&self, mut stop: impl FnMut(f64, f64, f64) -> bool) -> Option<(f64, f64, f64)> {
        let (mut mass, mut shrunk, mut factor) = (0.0, 0.0, 0.0);
        let (fall, rise) = (exp(-self.step), exp(self.theta * self.step));
        let (last, block) = (self.tilted.len() - 1, block(self.theta, self.step));
        for j in (0..=last).rev() {
            let loss = (self.low + j as f64) * self.step;
            // What undoes the tilt: by repeated multiplication, refreshed often enough to keep its digits.
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
        position > 0.25 * length && position < 0.75 * length
    }
}

/// The ends of a window, in nats. What lies outside comes in again at the other end, in a transform.
struct Edges {
    bottom: f64,
    top: f64,
    /// No sum is above this.
    most: f64,
}

/// How far from the mean a Chernoff exponent is tried, in parts of what is best for a normal sum. Jumps larger than the
/// spread ask for less.
const TRIES: [f64; 10] = [1.0, 0.5, 2.0, 0.25, 0.125, 0.06, 0.02, 0.006, 0.002, 0.0006];

impl Edges {
    /// A bound on Pr[L > top], which the window loses and which is to count as infinite; when it is below `little`, and so
    /// is what comes in again above the answer.
    fn above(&self, parts: &[Part], theta: f64, at: &Moments, little: f64) -> Option<f64> {
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

    /// Does what lies below the window, and comes in again above the answer, add no more than `little`? (It is never lost,
    /// only counted too high.) Shifting all mass up by the window's width weighs it down by e^{−θ·width}; or little is there.
    fn wraps_little(&self, parts: &[Part], theta: f64, at: &Moments, little: f64) -> bool {
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

/// A whole number modulo the length.
fn wrapped(index: f64, length: usize) -> usize {
    let length = length as f64;
    (index - length * libm::floor(index / length)) as usize
}

impl Workshop {
    /// Π of the parts' spectra to their counts, transformed back: the tilted sum, by index modulo the length.
    fn convolve(&mut self, parts: &[Part], theta: f64, length: usize) -> Vec<f64> {
        let fourier = match self.fourier.take() {
            Some(known) if known.length() == length => known,
            _ => Fourier::new(length),
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

/// A part's tilted masses by their index modulo the length.
fn spread(part: &Part, theta: f64, points: &mut [f64]) {
    let own = part.moments(theta).ln_mgf;
    let rise = exp(theta * part.step);
    let (mut at, mut weight, block) = (wrapped(part.low as f64, points.len()), 0.0, block(theta, part.step));
    points.fill(0.0);
    for (j, mass) in part.masses.iter().enumerate() {
        weight = if j.is_multiple_of(block) { exp(theta * part.loss(j) - own) } else { weight * rise };
        points[at] += mass * weight;
        at = if at + 1 == points.len() { 0 } else { at + 1 };
    }
}

/// A spectrum to a power.
fn raise(spectrum: &mut Plane, count: u64) {
    for (re, im) in spectrum.both() {
        (*re, *im) = power((*re, *im), count);
    }
}

/// A product with a spectrum to a power; nothing comes of nothing.
fn times(product: &mut Plane, spectrum: &Plane, count: u64) {
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

/// The square of an amplitude that is nothing beside the slack of a window: of a distribution, the greatest is 1.
const NOTHING: f64 = 1e-50;

/// zⁿ by repeated squaring; what falls below [`NOTHING`] is 0.
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
