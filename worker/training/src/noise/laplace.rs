//! Exact discrete Laplace noise, in integers only (Canonne, Kamath, Steinke 2020, algorithm 2).
//!
//! P(x) = tanh(s/2) exp(−s|x|) over the integers, with a rate s = k / 2³² nats. A uniform u below 2³² is accepted with
//! probability exp(−u/2³²), and v counts successes of probability exp(−1). So u + 2³² v is geometric with rate 2⁻³²,
//! and its quotient by k is geometric with rate s. A sign is drawn as well, and the second zero is rejected.

use rand_chacha::rand_core::Rng;

use super::exp_minus;

/// Discrete Laplace noise whose rate is a whole number of 2⁻³² nats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteLaplace {
    numerator: u64,
}

impl DiscreteLaplace {
    /// 2³², the denominator of every rate.
    pub const DENOMINATOR: u64 = 1 << 32;

    /// Returns noise of exactly this rate, in nats. Returns `None` for a rate that is not a multiple of 2⁻³², not above
    /// 0, or 2²⁰ and more. The rate is not rounded, because the drawn distribution must be the charged one.
    pub fn new(rate: f64) -> Option<Self> {
        // Exact: a power of two.
        let numerator = rate * Self::DENOMINATOR as f64;
        let whole = (1.0..2.0_f64.powi(52)).contains(&numerator) && numerator.fract() == 0.0;
        whole.then_some(Self { numerator: numerator as u64 })
    }

    /// Returns the rate, in nats.
    pub fn rate(self) -> f64 {
        self.numerator as f64 / Self::DENOMINATOR as f64
    }

    /// Draws one integer. The duration depends on the value, so draw all values before any observable action.
    pub fn sample(self, rng: &mut impl Rng) -> i64 {
        loop {
            let fraction = u64::from(rng.next_u32());
            if !exp_minus(fraction, Self::DENOMINATOR, rng) {
                continue;
            }
            let mut whole: u64 = 0;
            while exp_minus(1, 1, rng) {
                whole += 1;
            }
            let magnitude = ((whole << 32 | fraction) / self.numerator).cast_signed();
            match (rng.next_u32() >> 31 == 1, magnitude) {
                (true, 0) => {}
                (true, magnitude) => return -magnitude,
                (false, magnitude) => return magnitude,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::DiscreteLaplace;

    const SAMPLES: u32 = 200_000;

    #[test]
    fn samples_follow_the_distribution() {
        for (seed, numerator) in [(1, 1_u64 << 30), (2, 427_819_009), (3, 1 << 32), (4, 9_710_342_891)] {
            let rate = numerator as f64 / DiscreteLaplace::DENOMINATOR as f64;
            let noise = DiscreteLaplace::new(rate).unwrap();
            assert!((noise.rate() - rate).abs() < f64::EPSILON);
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let samples: Vec<i64> = (0..SAMPLES).map(|_| noise.sample(&mut rng)).collect();
            // Bins with at least ten expected draws, and one bin for the remaining values.
            let mass = |x: i64| (0.5 * rate).tanh() * (-rate * x.abs() as f64).exp();
            let reach = (0..1_000).find(|x| mass(*x) * f64::from(SAMPLES) < 10.0).unwrap();
            let (mut chi_square, mut seen, mut expected) = (0.0, 0.0, 0.0);
            for x in 1 - reach..reach {
                let hits = samples.iter().filter(|draw| **draw == x).count() as f64;
                let mean = mass(x) * f64::from(SAMPLES);
                chi_square += (hits - mean).powi(2) / mean;
                (seen, expected) = (seen + hits, expected + mean);
            }
            let beyond = f64::from(SAMPLES) - expected;
            chi_square += (f64::from(SAMPLES) - seen - beyond).powi(2) / beyond.max(1.0);
            let freedom = (2 * reach - 1) as f64;
            // Five standard deviations of chi-square.
            assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt(), "{rate}: {chi_square} of {freedom}");
        }
    }

    #[test]
    fn a_rate_that_would_have_to_be_rounded_is_refused() {
        for rate in [0.0, -1.0, 0.1, f64::NAN, f64::INFINITY, 2.0_f64.powi(-33), 2.0_f64.powi(20)] {
            assert_eq!(DiscreteLaplace::new(rate), None, "{rate}");
        }
        assert!(DiscreteLaplace::new(2.0_f64.powi(-32)).is_some());
    }
}
