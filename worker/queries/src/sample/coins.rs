//! Coins that succeed with probability exactly k / 2³², the charged rate.
//!
//! 64 coins are thrown together. Each compares its own uniform 32-bit integer u with k from the highest bit down. A bit
//! is drawn only while some coin is undecided, which takes about 8 words for all 64. The result is the same as with the
//! whole u, because the bits that are not drawn cannot change it.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;
use undertone_privacy::SamplingRate;

/// An endless sequence of independent coins.
pub struct RateCoins<R = ChaCha20Rng> {
    rng: R,
    /// k of k / 2³².
    numerator: u64,
    /// Coins that were thrown and not used, the next one lowest.
    thrown: u64,
    left: u32,
}

impl<R: Rng> RateCoins<R> {
    /// Makes coins of this rate from a stream of randomness.
    pub const fn new(rng: R, rate: SamplingRate) -> Self {
        Self { rng, numerator: rate.numerator(), thrown: 0, left: 0 }
    }

    /// Returns the number of successes of `copies` coins: Binomial(`copies`, k / 2³²), exactly, one coin for each copy.
    pub fn binomial(&mut self, mut copies: u64) -> u64 {
        let mut successes = 0;
        while copies > 0 {
            if self.left == 0 {
                (self.thrown, self.left) = (self.throw(), 64);
            }
            let take = copies.min(self.left.into()) as u32;
            successes += u64::from((self.thrown & (u64::MAX >> (64 - take))).count_ones());
            self.thrown = self.thrown.checked_shr(take).unwrap_or(0);
            self.left -= take;
            copies -= u64::from(take);
        }
        successes
    }

    /// Throws 64 coins: bit i is set if the i-th integer is below k.
    fn throw(&mut self) -> u64 {
        if self.numerator == SamplingRate::DENOMINATOR {
            return u64::MAX;
        }
        // The integers that are below k already, and those that are equal so far.
        let (mut below, mut equal) = (0_u64, u64::MAX);
        for place in (0..32).rev() {
            // An integer that equals k so far cannot fall below it when k has only zeros left.
            if equal == 0 || self.numerator.trailing_zeros() > place {
                break;
            }
            let bits = self.rng.next_u64();
            if self.numerator >> place & 1 == 1 {
                below |= equal & !bits;
                equal &= bits;
            } else {
                equal &= !bits;
            }
        }
        below
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "the rates of a test are in range")]

    use std::convert::Infallible;

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{SeedableRng, TryRng};
    use undertone_privacy::SamplingRate;

    use super::RateCoins;

    /// Returns the words of a list, and counts them.
    struct ScriptedWords(Vec<u64>, usize);

    impl TryRng for ScriptedWords {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok(self.try_next_u64()? as u32)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            self.1 += 1;
            Ok(self.0[self.1 - 1])
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            for chunk in bytes.chunks_mut(8) {
                let word = self.try_next_u64()?.to_le_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
            Ok(())
        }
    }

    fn dyadic(numerator: u64) -> SamplingRate {
        SamplingRate::new(numerator as f64 / SamplingRate::DENOMINATOR as f64).unwrap()
    }

    fn chance(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    #[test]
    fn coins_equal_whole_integer_comparisons() {
        let mut words = chance(1);
        for numerator in [1, 2, 3, 0x4000_0000, 0x8000_0000, 0x1999_999A, 0xFFFF_FFFF, 0x8000_0001] {
            for _ in 0..20 {
                let sampled_words: Vec<u64> =
                    (0..32).map(|_| rand_chacha::rand_core::Rng::next_u64(&mut words)).collect();
                let fallen = RateCoins::new(ScriptedWords(sampled_words.clone(), 0), dyadic(numerator)).throw();
                for lane in 0..64 {
                    let integer = sampled_words.iter().fold(0_u64, |integer, word| integer << 1 | word >> lane & 1);
                    assert_eq!(fallen >> lane & 1 == 1, integer < numerator, "{numerator:#x} against {integer:#x}");
                }
            }
        }
    }

    #[test]
    fn coins_draw_only_the_needed_bits() {
        let mut half = RateCoins::new(ScriptedWords(vec![0xF0F0; 1], 0), dyadic(1 << 31));
        assert_eq!((half.throw(), half.rng.1), (!0xF0F0, 1));
        let mut all = RateCoins::new(ScriptedWords(Vec::new(), 0), SamplingRate::ONE);
        assert_eq!((all.binomial(1_000_003), all.rng.1), (1_000_003, 0));
    }

    #[test]
    fn coins_are_used_once_in_order() {
        // For any division of the copies, the same coins succeed in the same order.
        let whole = RateCoins::new(chance(2), dyadic(0x5555_5555)).binomial(10_000);
        for sizes in [vec![1], vec![63], vec![64], vec![65], vec![1, 64, 7, 200, 3]] {
            let mut coins = RateCoins::new(chance(2), dyadic(0x5555_5555));
            let mut thrown = 0;
            let mut successes = 0;
            for size in sizes.iter().cycle() {
                let size = (*size).min(10_000 - thrown);
                successes += coins.binomial(size);
                thrown += size;
                if thrown == 10_000 {
                    break;
                }
            }
            assert_eq!(successes, whole, "{sizes:?}");
        }
    }

    /// Returns the upper 10⁻⁶ quantile of χ² with `freedom` degrees, by Wilson and Hilferty.
    fn too_much(freedom: f64) -> f64 {
        let spread = 2.0 / (9.0 * freedom);
        let normal = 4.753;
        freedom * (1.0 - spread + normal * f64::sqrt(spread)).powi(3)
    }

    #[test]
    fn successes_are_binomial() {
        for (copies, rate) in [(1, 0.25), (3, 0.1), (12, 0.5), (40, 0.75), (200, 0.05)] {
            let rate = SamplingRate::new(rate).unwrap();
            let mut coins = RateCoins::new(chance(3), rate);
            let draws = 60_000;
            let mut frequencies = vec![0.0; copies + 1];
            for _ in 0..draws {
                frequencies[coins.binomial(copies as u64) as usize] += 1.0;
            }
            let p = rate.get();
            let mut probability = (1.0 - rate.get()).powi(copies as i32);
            let (mut chi, mut cells, mut rest, mut rest_seen) = (0.0, 0.0, 0.0, 0.0);
            for (successes, frequency) in frequencies.iter().enumerate() {
                let expected = probability * f64::from(draws);
                if expected >= 10.0 {
                    chi += (frequency - expected).powi(2) / expected;
                    cells += 1.0;
                } else {
                    (rest, rest_seen) = (rest + expected, rest_seen + frequency);
                }
                probability *= (copies - successes) as f64 / (successes + 1) as f64 * p / (1.0 - p);
            }
            if rest >= 1.0 {
                chi += (rest_seen - rest) * (rest_seen - rest) / rest;
                cells += 1.0;
            }
            assert!(chi < too_much(cells - 1.0), "{copies} copies at {p}: {chi} with {cells} cells");
        }
    }

    #[test]
    fn neighbouring_coins_are_independent() {
        // All 2⁸ patterns of 8 coins in a row, at ¼.
        let mut coins = RateCoins::new(chance(4), dyadic(1 << 30));
        let draws = 400_000;
        let mut frequencies = vec![0.0; 256];
        for _ in 0..draws {
            let pattern = (0..8).fold(0, |pattern, _| pattern << 1 | coins.binomial(1) as usize);
            frequencies[pattern] += 1.0;
        }
        let chi: f64 = (0..256_u32)
            .map(|pattern| {
                let ones = pattern.count_ones() as i32;
                let expected = 0.25_f64.powi(ones) * 0.75_f64.powi(8 - ones) * f64::from(draws);
                (frequencies[pattern as usize] - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < too_much(255.0), "{chi}");
    }
}
