//! Draws the members of a batch: each unit independently, with probability q, secretly (Poisson sampling; `privacy.md`,
//! 3.7).
//!
//! The guarantee of a round is amplified by exactly the q drawn here, so q = k / 2³² is compared with a uniform integer
//! and never rounded. Shuffled or fixed-size batches would not be amplified, so there is no such sampler.

use rand_chacha::rand_core::Rng;
use undertone_privacy::SamplingRate;

use super::randomness::{Purpose, Randomness};

/// Draws batches of one dataset's units.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    units: usize,
    rate: SamplingRate,
}

/// The units of one round. Secret: neither its members nor their number may be logged or sent.
pub struct Batch {
    units: Vec<usize>,
    rate: SamplingRate,
}

impl Sampler {
    /// Returns a sampler over the units `0..units`.
    pub const fn new(units: usize, rate: SamplingRate) -> Self {
        Self { units, rate }
    }

    /// Draws a batch: one independent trial for each unit. An empty batch is valid; its round is released and charged
    /// like any other.
    pub fn draw(&self, randomness: &Randomness) -> Batch {
        #[cfg(any(test, feature = "testing"))]
        if super::sabotage::active_fault() == Some(super::sabotage::Sabotage::EveryUnit) {
            return Batch { units: (0..self.units).collect(), rate: self.rate };
        }
        let mut rng = randomness.stream(0);
        // A uniform 32-bit integer is below k with probability exactly k / 2³²; always so for k = 2³².
        let units = (0..self.units).filter(|_| u64::from(rng.next_u32()) < self.rate.numerator()).collect();
        Batch { units, rate: self.rate }
    }

    /// Draws a batch among some units, ascending numbers below the sampler's: one independent trial for each of these. The
    /// others do not have their turn.
    pub fn draw_among(&self, members: &[usize], randomness: &Randomness) -> Batch {
        let among = Self { units: members.len(), rate: self.rate }.draw(randomness);
        Batch { units: among.units.iter().map(|place| members[*place]).collect(), rate: among.rate }
    }

    /// Draws a batch with fresh randomness of the operating system.
    pub fn draw_fresh(&self) -> Batch {
        self.draw(&Randomness::from_os(Purpose::Sampling))
    }
}

impl Batch {
    /// Returns the numbers of its units, ascending.
    pub fn units(&self) -> &[usize] {
        &self.units
    }

    /// Returns the q of the draw.
    pub const fn rate(&self) -> SamplingRate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use undertone_privacy::SamplingRate;

    use super::{Purpose, Randomness, Sampler};

    #[test]
    fn rate_one_draws_every_unit() {
        let batch = Sampler::new(100, SamplingRate::ONE).draw_fresh();
        assert_eq!(batch.units(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_share_of_units_drawn_is_the_rate() {
        let (units, rate) = (200_000, SamplingRate::new(0.1).unwrap());
        let count = Sampler::new(units, rate).draw(&Randomness::in_test(Purpose::Sampling, 3)).units().len() as f64;
        let (mean, deviation) = (units as f64 * 0.1, (units as f64 * 0.1 * 0.9).sqrt());
        assert!((count - mean).abs() < 4.0 * deviation, "{count}");
    }

    #[test]
    fn a_batch_can_be_empty() {
        let rate = SamplingRate::new(1e-9).unwrap();
        assert!(Sampler::new(3, rate).draw(&Randomness::in_test(Purpose::Sampling, 3)).units().is_empty());
    }

    #[test]
    fn batch_of_a_turn_has_members_of_the_group_alone() {
        let members = [1, 4, 5, 9];
        let all = Sampler::new(10, SamplingRate::ONE).draw_among(&members, &Randomness::in_test(Purpose::Sampling, 1));
        assert_eq!((all.units(), all.rate()), (&members[..], SamplingRate::ONE));
        let sampler = Sampler::new(10, SamplingRate::new(0.5).unwrap());
        let mut counts = [0_u32; 10];
        for seed in 0..=255_u8 {
            let batch = sampler.draw_among(&members, &Randomness::in_test(Purpose::Sampling, seed));
            assert!(batch.units().is_sorted());
            batch.units().iter().for_each(|unit| counts[*unit] += 1);
        }
        for (unit, count) in counts.into_iter().enumerate() {
            // Half of 256, five standard deviations of 8.
            let expected = if members.contains(&unit) { 88..=168 } else { 0..=0 };
            assert!(expected.contains(&count), "{counts:?}");
        }
    }

    #[test]
    fn units_are_drawn_independently_of_each_other() {
        // With 2 units at q = ½, the four batches are equally likely.
        let sampler = Sampler::new(2, SamplingRate::new(0.5).unwrap());
        let mut counts = [0_i32; 4];
        for seed in 0..=255_u8 {
            for unit in sampler.draw(&Randomness::in_test(Purpose::Sampling, seed)).units().iter().map(|u| 1 << u) {
                counts[unit] += 1;
            }
            let both = sampler.draw(&Randomness::in_test(Purpose::Sampling, seed)).units().len() == 2;
            counts[3] += i32::from(both);
        }
        assert!((96..=160).contains(&counts[1]) && (96..=160).contains(&counts[2]), "{counts:?}");
        assert!((40..=88).contains(&counts[3]), "{counts:?}");
    }
}
