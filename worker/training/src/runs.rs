//! Draws the number of runs that count in a private selection: a secret integer, drawn exactly (`privacy.md`, 9 and
//! 11.3).
//!
//! The distribution is the charged one, [`Runs::CappedNegativeBinomial`]: Pr\[K = k\] ∝ (1−γ)^k Π_{l<k} (l+η)/(l+1) for
//! 1 ≤ k ≤ m, with −1 < η ≤ 1. The sampler walks from k = 1: it stops with probability γ, else it continues to k + 1
//! with probability (k+η)/(k+1), and otherwise restarts at 1, as it does if k would exceed m. So it reaches k and stops
//! there with probability proportional to γ (1−γ)^{k−1} Π_{0<l<k} (l+η)/(l+1). Every probability is compared with
//! uniform integers, bit by bit where a double has more bits than a word; nothing is rounded.
//!
//! The number must not be logged, stored or sent. Nothing observable from outside may depend on it, including the
//! duration of a round: see [`crate::private_selection`].

use rand_chacha::rand_core::Rng;
use undertone_privacy::selection::Runs;

use super::noise::below;
use super::randomness::Randomness;

/// Minimum stopping probability γ: a walk takes 1/γ steps on average.
const LEAST_STOPPING: f64 = 1.0 / 1024.0;

/// A distribution that cannot be drawn.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "cannot draw a number of runs from {0:?}: use a bound, a shape of at most 1 and a stopping rate of at least 1/1024"
)]
pub struct NotDrawn(pub Runs);

/// Draws the number of runs that count in a selection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunSampler {
    shape: f64,
    stopping: f64,
    most: u16,
}

/// The number of runs that count, at least one. It is secret and cannot be printed.
#[derive(Clone, Copy)]
pub struct SecretRuns(u16);

impl SecretRuns {
    /// Returns true if the run with this number, counted from 0, counts.
    pub(super) const fn include(self, run: u16) -> bool {
        run < self.0
    }
}

impl RunSampler {
    /// Returns a sampler for the runs of a selection's event.
    ///
    /// # Errors
    /// [`NotDrawn`] for a distribution without a bound, with a shape above 1, or with a stopping rate so small that a
    /// walk would not end in practice.
    pub fn new(runs: Runs) -> Result<Self, NotDrawn> {
        match runs {
            Runs::CappedNegativeBinomial { shape, stopping, most }
                if shape.get() <= 1.0 && stopping.get() >= LEAST_STOPPING =>
            {
                Ok(Self { shape: shape.get(), stopping: stopping.get(), most: most.get() })
            }
            other => Err(NotDrawn(other)),
        }
    }

    /// Returns the maximum number of runs.
    pub const fn most(&self) -> u16 {
        self.most
    }

    /// Draws a number, from stream 0 of a randomness for selections.
    pub fn draw(&self, randomness: &Randomness) -> SecretRuns {
        SecretRuns(self.walk(&mut randomness.stream(0)))
    }

    fn walk(&self, rng: &mut impl Rng) -> u16 {
        let mut k = 1;
        loop {
            if bernoulli(self.stopping, rng) {
                return k;
            }
            k = if k < self.most && self.goes_on(k, rng) { k + 1 } else { 1 };
        }
    }

    /// Returns true with probability (k+η)/(k+1). Of k + 1 equally likely places, all but the last are accepted, and
    /// the last with probability η; for η < 0, all but the last two, and the last but one with probability 1 − |η|.
    fn goes_on(&self, k: u16, rng: &mut impl Rng) -> bool {
        let place = below(u32::from(k) + 1, rng);
        let last = u32::from(k);
        if self.shape >= 0.0 {
            place < last || bernoulli(self.shape, rng)
        } else {
            place + 1 < last || (place + 1 == last && !bernoulli(-self.shape, rng))
        }
    }
}

/// Returns true with probability exactly `p`, a double in \[0, 1\]: a uniform real is compared with it, 64 bits at a
/// time.
pub(super) fn bernoulli(p: f64, rng: &mut impl Rng) -> bool {
    const WORD: f64 = 18_446_744_073_709_551_616.0;
    let mut rest = p;
    while rest > 0.0 {
        if rest >= 1.0 {
            return true;
        }
        // Both operations are exact: a multiplication by a power of two, and the integer part of a double.
        rest *= WORD;
        let digit = rest as u64;
        let word = rng.next_u64();
        if word != digit {
            return word < digit;
        }
        rest -= digit as f64;
    }
    false
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use std::num::NonZeroU16;

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;
    use undertone_privacy::selection::Runs;
    use undertone_privacy::unit::{RunShape, StoppingRate};

    use super::{NotDrawn, RunSampler, bernoulli};

    const DRAWS: u32 = 200_000;

    fn runs(shape: f64, stopping: f64, most: u16) -> Runs {
        let (shape, stopping) = (RunShape::new(shape).unwrap(), StoppingRate::new(stopping).unwrap());
        Runs::CappedNegativeBinomial { shape, stopping, most: NonZeroU16::new(most).unwrap() }
    }

    /// Returns χ² of the draws from `drawn` against the probabilities of `said`, in standard errors above the
    /// expectation (Wilson and Hilferty 1931). Numbers with an expected count below ten share one bin.
    fn excess(drawn: Runs, said: Runs, seed: u64) -> f64 {
        let (sampler, mut rng) = (RunSampler::new(drawn).unwrap(), ChaCha20Rng::seed_from_u64(seed));
        // A possible number that never occurs counts, too.
        let most = sampler.most().max(RunSampler::new(said).unwrap().most());
        let mut counts = vec![0_u32; usize::from(most) + 1];
        for _ in 0..DRAWS {
            counts[usize::from(sampler.walk(&mut rng))] += 1;
        }
        let (mut bins, mut rare) = (Vec::new(), (0.0, 0.0));
        for (k, count) in counts.iter().enumerate() {
            let expected = f64::from(DRAWS) * said.probability(k as u32);
            let (count, target) = (f64::from(*count), if expected < 10.0 { None } else { Some(expected) });
            match target {
                Some(expected) => bins.push((count, expected)),
                None => rare = (rare.0 + count, rare.1 + expected),
            }
        }
        if rare.1 >= 10.0 || rare.0 > 20.0 {
            bins.push((rare.0, rare.1.max(1.0)));
        }
        let statistic: f64 = bins.iter().map(|(count, expected)| (count - expected).powi(2) / expected).sum();
        let freedom = bins.len() as f64 - 1.0;
        let spread = 2.0 / (9.0 * freedom);
        ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
    }

    #[test]
    fn drawn_distribution_is_the_charged_one() {
        let cases =
            [(1.0, 0.1, 60), (0.0, 0.1, 40), (-0.5, 0.05, 100), (0.3, 0.01, 25), (-0.99, 0.2, 10), (1.0, 0.5, 2)];
        for (seed, (shape, stopping, most)) in cases.into_iter().enumerate() {
            let runs = runs(shape, stopping, most);
            let excess = excess(runs, runs, seed as u64);
            assert!(excess < 4.0, "{runs:?}: {excess}");
        }
    }

    #[test]
    fn other_distributions_fail_the_chi_square_test() {
        let expected = runs(0.0, 0.1, 40);
        for other in [runs(0.1, 0.1, 40), runs(0.0, 0.13, 40), runs(0.0, 0.1, 20)] {
            assert!(excess(other, expected, 7) > 8.0, "{other:?}");
        }
    }

    #[test]
    fn a_bound_is_never_exceeded_and_one_run_is_always_there() {
        let (sampler, mut rng) = (RunSampler::new(runs(1.0, 0.001, 3)).unwrap(), ChaCha20Rng::seed_from_u64(1));
        let all: Vec<u16> = (0..2000).map(|_| sampler.walk(&mut rng)).collect();
        assert!((1..=3).all(|k| all.contains(&k)) && all.iter().all(|k| (1..=3).contains(k)));
    }

    #[test]
    fn a_probability_is_met_to_its_last_bit() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        assert!((0..1000).all(|_| bernoulli(1.0, &mut rng) && !bernoulli(0.0, &mut rng)));
        // 2^-70 is beyond the first word: a word of zeros leads to the second word.
        assert!((0..1000).all(|_| !bernoulli((-70.0_f64).exp2(), &mut rng)));
        let hits = (0..DRAWS).filter(|_| bernoulli(0.3, &mut rng)).count() as f64;
        let (mean, deviation) = (f64::from(DRAWS) * 0.3, (f64::from(DRAWS) * 0.21).sqrt());
        assert!((hits - mean).abs() < 5.0 * deviation, "{hits}");
    }

    #[test]
    fn unsupported_distribution_is_refused() {
        let (shape, stopping) = (RunShape::new(0.0).unwrap(), StoppingRate::new(0.1).unwrap());
        let endless = Runs::TruncatedNegativeBinomial { shape, stopping };
        assert_eq!(RunSampler::new(endless), Err(NotDrawn(endless)));
        assert!(RunSampler::new(runs(1.5, 0.1, 9)).is_err());
        assert!(RunSampler::new(runs(1.0, 1e-9, 9)).is_err(), "it would be walked for ever");
    }
}
