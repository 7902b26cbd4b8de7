//! Exact discrete Gaussian noise by integer arithmetic alone: no bit of it results from floating point (`privacy.md`,
//! 11.2).
//!
//! The distribution is N_ℤ(0, σ²): P(x) ∝ exp(−x²/2σ²) over the integers (Canonne, Kamath, Steinke 2020, "The discrete
//! Gaussian for differential privacy"). The sampler follows Karney's (2016, "Sampling exactly from the normal
//! distribution", algorithm D) with finer strips, so that nine in ten draws are accepted by one comparison:
//!
//! 1. |x|/σ lies in the i-th strip of width 1/16 with i ∝ exp(−i²/512), from a table of 128 bits (`strips`), of
//!    which 32 almost always decide.
//! 2. Each integer of the strip is equally likely: |x|/σ = (i + f)/16 with 0 ≤ f < 1 rational.
//! 3. The integer is accepted with probability exp(−f(2i + f)/512), by the trials of Canonne et al. (algorithm 1).
//!    Each trial compares a uniform number with a rational, and draws more bits where the drawn bits do not decide.
//!
//! Together P(x) ∝ exp(−i²/512 − f(2i + f)/512) = exp(−x²/2σ²).

mod laplace;
mod strips;

use rand_chacha::rand_core::Rng;

pub use laplace::DiscreteLaplace;
use strips::{CUMULATIVE, FIRST};

/// Strips per σ.
const STRIPS: u64 = 16;

/// N_ℤ(0, σ²) with rational σ = p / q.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteGaussian {
    p: u64,
    q: u64,
    /// Maximum number of integers in a strip.
    width: u32,
}

impl DiscreteGaussian {
    /// Returns the distribution with σ = p / q.
    ///
    /// # Panics
    /// If p or q is outside 1..2³²: all values must fit machine integers.
    pub fn new(p: u64, q: u64) -> Self {
        assert!((1..1 << 32).contains(&p) && (1..1 << 32).contains(&q), "deviation {p}/{q}");
        Self { p, q, width: p.div_ceil(STRIPS * q) as u32 }
    }

    /// Returns the distribution with an integer σ.
    ///
    /// # Panics
    /// If σ is outside 1..2³².
    pub fn integer(deviation: u64) -> Self {
        Self::new(deviation, 1)
    }

    /// Draws one integer. The duration depends on the value, so draw a whole vector before any observable action.
    pub fn sample(&self, rng: &mut impl Rng) -> i64 {
        loop {
            let strip = strip(rng);
            let magnitude = (strip * self.p).div_ceil(STRIPS * self.q) + u64::from(below(self.width, rng));
            // f = n / p.
            let n = STRIPS * magnitude * self.q - strip * self.p;
            let word = rng.next_u32();
            let negative = word >> 31 == 1;
            // Rejects values beyond the strip and the second zero.
            if n >= self.p || (magnitude == 0 && negative) {
                continue;
            }
            // f(2i + f)/512 is the product of two rationals; the first trial of the smaller one has 31 bits already.
            let slope = (2 * strip * self.p + n, 2 * STRIPS * STRIPS * self.p);
            let first = decide(u64::from(word << 1 >> 1), 31, slope.0, slope.1, rng) && chance(n, self.p, rng);
            let trial = |rng: &mut _| chance(slope.0, slope.1, rng) && chance(n, self.p, rng);
            if !first || alternate(2, rng, trial) {
                let magnitude = magnitude.cast_signed();
                return if negative { -magnitude } else { magnitude };
            }
        }
    }
}

/// Draws i with probability proportional to exp(−i²/512).
fn strip(rng: &mut impl Rng) -> u64 {
    let head = rng.next_u32();
    let mut strip = usize::from(FIRST[(head >> 24) as usize]);
    loop {
        let bound = (CUMULATIVE[strip] >> 96) as u32;
        if head < bound {
            return strip as u64;
        }
        if head == bound {
            break;
        }
        strip += 1;
    }
    let rest = u128::from(rng.next_u32()) << 64 | u128::from(rng.next_u64());
    let whole = u128::from(head) << 96 | rest;
    let beyond = CUMULATIVE[strip..CUMULATIVE.len() - 1].iter().take_while(|bound| whole >= **bound).count();
    (strip + beyond) as u64
}

/// Draws Bernoulli(exp(−γ)) from trials of probability γ ≤ 1, starting with trial `from`. The first j at which a trial
/// of probability γ/j fails is odd with probability Σ (−γ)ʲ/j! (Canonne et al., algorithm 1).
fn alternate<R: Rng>(from: u64, rng: &mut R, trial: impl Fn(&mut R) -> bool) -> bool {
    let mut j = from;
    while (j == 1 || chance(1, j, rng)) && trial(rng) {
        j += 1;
    }
    j % 2 == 1
}

/// Draws Bernoulli(exp(−n/d)) for 0 ≤ n ≤ d.
fn exp_minus(n: u64, d: u64, rng: &mut impl Rng) -> bool {
    alternate(1, rng, |rng| chance(n, d, rng))
}

/// Returns true with probability exactly n/d, for n ≤ d.
fn chance(n: u64, d: u64, rng: &mut impl Rng) -> bool {
    decide(rng.next_u64(), 64, n, d, rng)
}

/// Returns true if a uniform real whose first `bits` bits are `word` is below n/d; draws 64 more bits until this is
/// decided.
fn decide(mut word: u64, mut bits: u32, n: u64, d: u64, rng: &mut impl Rng) -> bool {
    let mut rest = u128::from(n);
    loop {
        // Is (word + the bits to come) / 2^bits < rest / d?
        let (low, target) = (u128::from(word) * u128::from(d), rest << bits);
        if low >= target {
            return false;
        }
        rest = target - low;
        if rest >= u128::from(d) {
            return true;
        }
        (word, bits) = (rng.next_u64(), 64);
    }
}

/// Draws a uniform integer below `end` (Lemire 2019: multiplication, rejection of the biased remainder).
pub fn below(end: u32, rng: &mut impl Rng) -> u32 {
    loop {
        let product = u64::from(rng.next_u32()) * u64::from(end);
        // Of 2³² words, 2³² mod end are in excess.
        let low = product as u32;
        if low >= end || low >= end.wrapping_neg() % end {
            return (product >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests;
