//! Exact discrete Gaussian noise, in integers only: no bit of it comes from floating point (`privacy.md`, 11.2).
//!
//! The distribution is N_ℤ(0, σ²): P(x) ∝ exp(−x²/2σ²) over the integers (Canonne, Kamath, Steinke 2020, "The discrete
//! Gaussian for differential privacy"). The sampler is Karney's (2016, "Sampling exactly from the normal distribution",
//! algorithm D) for rational σ, with the Bernoulli(exp(−γ)) trials of Canonne et al. (algorithm 1): every decision compares
//! uniform integers with rationals, and where 64 bits do not decide, it draws 64 more.

use rand_chacha::rand_core::Rng;

/// N_ℤ(0, σ²) with rational σ = p / q.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteGaussian {
    p: u64,
    q: u64,
    /// ⌈σ⌉.
    ceiling: u64,
}

impl DiscreteGaussian {
    /// σ = p / q.
    ///
    /// # Panics
    /// Unless both are in 1..2³² (σ² must fit machine integers).
    pub fn new(p: u64, q: u64) -> Self {
        assert!((1..1 << 32).contains(&p) && (1..1 << 32).contains(&q), "deviation {p}/{q}");
        Self { p, q, ceiling: p.div_ceil(q) }
    }

    /// An integer σ.
    ///
    /// # Panics
    /// Unless it is in 1..2³².
    pub fn integer(deviation: u64) -> Self {
        Self::new(deviation, 1)
    }

    /// Draws one integer. The time it takes depends on what is drawn; draw a whole vector before anything observable.
    pub fn sample(&self, rng: &mut impl Rng) -> i64 {
        loop {
            // |x| = (k + f)σ with k ≥ 0 whole and 0 ≤ f < 1: k ∝ exp(−k²/2), then f accepted with exp(−f(2k + f)/2).
            let k = whole_deviations(rng);
            let least = (k * self.p).div_ceil(self.q);
            let magnitude = least + below(self.ceiling, rng);
            // f = n / p.
            let n = magnitude * self.q - k * self.p;
            let negative = rng.next_u32() >> 31 == 1;
            // Beyond this block of σ, or the second zero.
            if n >= self.p || (magnitude == 0 && negative) {
                continue;
            }
            if (0..k).all(|_| exp_minus(n, self.p, rng)) && self.exp_minus_half_square(n, rng) {
                let magnitude = magnitude as i64;
                return if negative { -magnitude } else { magnitude };
            }
        }
    }

    /// Bernoulli(exp(−f²/2)) for f = n / p < 1: the trials of probability f²/2 are three independent ones.
    fn exp_minus_half_square(&self, n: u64, rng: &mut impl Rng) -> bool {
        alternate(rng, |rng| rng.next_u32() >> 31 == 1 && chance(n, self.p, rng) && chance(n, self.p, rng))
    }
}

/// k ≥ 0 with probability proportional to exp(−k²/2): k/2 from a geometric run, k(k−1)/2 from as many trials again.
fn whole_deviations(rng: &mut impl Rng) -> u64 {
    loop {
        let mut k = 0;
        while exp_minus_half(rng) {
            k += 1;
        }
        if (1..k).all(|_| (0..k).all(|_| exp_minus_half(rng))) {
            return k;
        }
    }
}

/// Bernoulli(exp(−1/2)).
fn exp_minus_half(rng: &mut impl Rng) -> bool {
    alternate(rng, |rng| rng.next_u32() >> 31 == 1)
}

/// Bernoulli(exp(−n/d)) for 0 ≤ n ≤ d (Canonne et al., algorithm 1).
fn exp_minus(n: u64, d: u64, rng: &mut impl Rng) -> bool {
    alternate(rng, |rng| chance(n, d, rng))
}

/// Bernoulli(exp(−γ)) from trials of probability γ ≤ 1: the first j at which a trial of probability γ/j fails is odd with
/// probability Σ (−γ)ʲ/j!.
fn alternate<R: Rng>(rng: &mut R, trial: impl Fn(&mut R) -> bool) -> bool {
    let mut j = 1;
    while trial(rng) && (j == 1 || chance(1, j, rng)) {
        j += 1;
    }
    j % 2 == 1
}

/// True with probability exactly n/d, for n ≤ d: compares n/d with a uniform real, 64 bits at a time.
fn chance(n: u64, d: u64, rng: &mut impl Rng) -> bool {
    let mut rest = u128::from(n);
    loop {
        // Is (word + the bits to come) / 2⁶⁴ < rest / d?
        let (low, target) = (u128::from(rng.next_u64()) * u128::from(d), rest << 64);
        if low >= target {
            return false;
        }
        if target - low >= u128::from(d) {
            return true;
        }
        rest = target - low;
    }
}

/// A uniform integer below `end` (Lemire 2019: multiplication, rejection of the biased rest).
fn below(end: u64, rng: &mut impl Rng) -> u64 {
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(end);
        // 2⁶⁴ mod end products are one too many for some values.
        if (product as u64) >= end || (product as u64) >= end.wrapping_neg() % end {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests;
