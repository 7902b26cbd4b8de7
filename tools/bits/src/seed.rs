//! Parameters from a fixed seed: SplitMix64, in integers only, so that every machine draws the same.

use std::num::NonZeroU32;

use undertone_privacy::event::DistributedNoise;
use undertone_privacy::histogram::Partition;
use undertone_privacy::kanon::{Shown, least_epsilon};
use undertone_privacy::selection::Runs;
use undertone_privacy::unit::{GridSteps, MeanRuns, NoiseSteps, RunShape, StoppingRate};
use undertone_privacy::{Delta, Epsilon, Event, NoiseMultiplier, SamplingRate};

/// A stream of parameters.
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a whole number below `most`.
    pub(crate) const fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Draws a number between two; a product and a sum, which round alike everywhere.
    pub(crate) fn uniform(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * ((self.next() >> 11) as f64 / 9_007_199_254_740_992.0)
    }

    /// Draws 10^−e for e from 1 to `most`, times a digit.
    pub(crate) fn small(&mut self, most: u64) -> f64 {
        let powers = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10];
        let power = powers[1 + self.below(most) as usize];
        power * (1 + self.below(9)) as f64
    }

    pub(crate) fn epsilon(&mut self, most: f64) -> Epsilon {
        Epsilon::new(self.uniform(0.01, most)).expect("in range")
    }

    pub(crate) fn delta(&mut self) -> Delta {
        Delta::new(self.small(10)).expect("in range")
    }

    pub(crate) fn noise(&mut self, least: f64, most: f64) -> NoiseMultiplier {
        NoiseMultiplier::new(self.uniform(least, most)).expect("in range")
    }

    pub(crate) fn rate(&mut self) -> SamplingRate {
        SamplingRate::new(self.small(4).min(1.0)).expect("in range")
    }

    /// Draws a sampled Gaussian with some noise.
    pub(crate) fn sampled(&mut self) -> Event {
        Event::PoissonSampledGaussian { sampling_rate: self.rate(), noise_multiplier: self.noise(0.4, 6.0) }
    }

    fn count(&mut self, most: u64) -> NonZeroU32 {
        NonZeroU32::new(1 + self.below(most) as u32).expect("at least 1")
    }

    fn length(&mut self) -> GridSteps {
        GridSteps::new(self.uniform(1.0, 3000.0)).expect("positive")
    }

    fn steps(&mut self) -> NoiseSteps {
        NoiseSteps::new(self.uniform(8.0, 1e5)).expect("at least 8")
    }

    fn distributed(&mut self) -> DistributedNoise {
        DistributedNoise {
            clip: self.length(),
            noise: self.length(),
            contributors: self.count(500),
            dimension: self.count(5000),
            rounding_bias: self.delta(),
        }
    }

    fn threshold(&mut self, shown: Shown) -> Event {
        let sampling_rate = SamplingRate::new(self.uniform(0.01, 0.5)).expect("a rate");
        let least = least_epsilon(Shown::Counts, sampling_rate.get());
        Event::SampledThreshold {
            sampling_rate,
            threshold: self.count(60),
            epsilon: Epsilon::new(least * self.uniform(1.1, 5.0)).expect("positive"),
            shown,
            rows_per_unit: self.count(3),
        }
    }

    fn dummies(&mut self) -> Event {
        let (providers, distance) = (self.count(6), self.count(20));
        let partition = Partition::new(providers, NonZeroU32::MIN).expect("one colludes");
        Event::TruncatedLaplace { rate: self.epsilon(2.0), shift: 20 + self.below(3000) as u32, distance, partition }
    }

    fn selected(&mut self) -> Event {
        let runs = if self.below(2) == 0 {
            Runs::Poisson { mean: MeanRuns::new(self.uniform(1.0, 60.0)).expect("at least 1") }
        } else {
            Runs::TruncatedNegativeBinomial {
                shape: RunShape::new(self.uniform(-0.9, 4.0)).expect("above -1"),
                stopping: StoppingRate::new(self.uniform(0.01, 0.95)).expect("inside (0, 1)"),
            }
        };
        Event::Selected { of: Box::new(self.sampled().times(1 + self.below(100))), runs }
    }

    /// Draws one event of every kind, some in several regimes.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        // With little noise, the orders near 1 are decisive.
        let little =
            Event::PoissonSampledGaussian { sampling_rate: self.rate(), noise_multiplier: self.noise(0.05, 0.3) };
        let (noise_multiplier, steps) = (self.noise(0.05, 20.0), self.steps());
        let (side, sampling_rate) = (Delta::new(self.small(9)).expect("in range"), self.rate());
        vec![
            Event::Gaussian { noise_multiplier },
            self.sampled(),
            little,
            Event::Laplace { epsilon: self.epsilon(3.0) },
            Event::Pure { epsilon: self.epsilon(3.0) },
            Event::Approximate { epsilon: self.epsilon(2.0), delta: side },
            Event::NonPrivate,
            Event::DiscreteGaussian { noise_multiplier, steps },
            Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier: self.noise(0.4, 6.0), steps },
            Event::DistributedDiscreteGaussian(self.distributed()),
            self.threshold(Shown::Counts),
            self.threshold(Shown::CountsTight),
            self.threshold(Shown::Set),
            self.dummies(),
            self.selected(),
            Event::Composed { events: vec![self.sampled(), self.threshold(Shown::Counts)] },
            self.sampled().times(1 + self.below(100_000)),
            Event::Substituted { of: Box::new(self.sampled()) },
            self.threshold(Shown::CountsRenyi),
            self.threshold(Shown::SetRenyi),
            Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise: Box::new(self.distributed()) },
            Event::BandedGaussian {
                sampling_rate,
                noise_multiplier,
                bands: NonZeroU32::MIN.saturating_add(3),
                releases: NonZeroU32::MIN.saturating_add(98),
            },
        ]
    }
}
