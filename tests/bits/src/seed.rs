//! Parameters from a fixed seed: SplitMix64, in integers only, so that every machine draws the same.

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

    /// A whole number below `most`.
    pub(crate) const fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Between two numbers; a product and a sum, which round alike everywhere.
    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * ((self.next() >> 11) as f64 / 9_007_199_254_740_992.0)
    }

    /// 10^−e for e up to `most`, times a digit.
    pub(crate) fn small(&mut self, most: u64) -> f64 {
        let powers = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10];
        let power = powers[1 + self.below(most) as usize];
        power * (1 + self.below(9)) as f64
    }

    pub(crate) fn epsilon(&mut self, most: f64) -> Epsilon {
        Epsilon::new(self.between(0.01, most)).expect("in range")
    }

    pub(crate) fn delta(&mut self) -> Delta {
        Delta::new(self.small(10)).expect("in range")
    }

    pub(crate) fn noise(&mut self, least: f64, most: f64) -> NoiseMultiplier {
        NoiseMultiplier::new(self.between(least, most)).expect("in range")
    }

    pub(crate) fn rate(&mut self) -> SamplingRate {
        SamplingRate::new(self.small(4).min(1.0)).expect("in range")
    }

    /// A sampled Gaussian with some noise.
    pub(crate) fn sampled(&mut self) -> Event {
        Event::PoissonSampledGaussian { sampling_rate: self.rate(), noise_multiplier: self.noise(0.4, 6.0) }
    }

    /// One event of every kind.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let events = vec![
            Event::Gaussian { noise_multiplier: self.noise(0.05, 20.0) },
            self.sampled(),
            // The regime of little noise, where the orders near 1 decide.
            Event::PoissonSampledGaussian { sampling_rate: self.rate(), noise_multiplier: self.noise(0.05, 0.3) },
            Event::Laplace { epsilon: self.epsilon(3.0) },
            Event::Pure { epsilon: self.epsilon(3.0) },
            Event::Approximate { epsilon: self.epsilon(2.0), delta: Delta::new(self.small(9)).expect("in range") },
            Event::NonPrivate,
        ];
        let composed = Event::Composed { events: vec![self.sampled(), events[3].clone(), events[0].clone()] };
        let repeated = self.sampled().times(1 + self.below(100_000));
        events.into_iter().chain([composed, repeated]).collect()
    }
}
