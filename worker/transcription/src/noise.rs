//! The number of dummies of each vocabulary word at each provider, and the privacy guarantee of these numbers.
//!
//! The mechanism is [`TruncatedLaplace`] of the privacy crate with the corrected shift, drawn exactly: its rate is a multiple
//! of 2⁻³² nat, and [`DiscreteLaplace`] draws exactly that rate. The guarantee against m of N providers that combine their
//! batches is reported for every m, because the assumption about colluding providers belongs to the record.
//!
//! This module stores no drawn number; see [`plan`](super::plan) for drawing once.

use std::num::NonZeroU32;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use undertone_privacy::histogram::{Differences, HistogramError, Partition, TruncatedLaplace};
use undertone_privacy::{Delta, Epsilon, Event};

use super::vocabulary::WordDisclosure;
use undertone_worker_training::noise::DiscreteLaplace;

/// Noise for one histogram at each of several providers: a [`TruncatedLaplace`] whose rate can be drawn exactly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredMechanism", into = "StoredMechanism")]
pub struct DummyMechanism {
    noise: TruncatedLaplace,
    sampler: DiscreteLaplace,
    distance: NonZeroU32,
    partition: Partition,
}

/// The guarantee against a number of colluding providers. Rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CollusionPromise {
    /// Number of colluding providers.
    pub colluding: NonZeroU32,
    /// ε, nats.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

/// Reasons that there is no such noise.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoiseError {
    /// No noise satisfies the request.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    /// The rate cannot be drawn exactly.
    #[error("noise.rate: {0} nats is no multiple of 2^-32 between 2^-32 and 2^20, so it cannot be drawn exactly")]
    Rate(f64),
}

impl DummyMechanism {
    /// Returns the smallest noise that satisfies (ε, δ) for histograms at distance d, counts added and removed together, against
    /// the colluding providers of the partition.
    ///
    /// # Errors
    /// [`NoiseError`] when there is none.
    pub fn calibrated(
        epsilon: Epsilon,
        delta: Delta,
        distance: NonZeroU32,
        partition: Partition,
    ) -> Result<Self, NoiseError> {
        let noise = TruncatedLaplace::calibrated(epsilon, delta, distance, partition, Differences::Mixed)?;
        Self::new(noise, distance, partition)
    }

    /// Combines `noise` with its distance and partition, which state the guarantee.
    ///
    /// # Errors
    /// [`NoiseError::Rate`] when its rate cannot be drawn exactly.
    pub fn new(noise: TruncatedLaplace, distance: NonZeroU32, partition: Partition) -> Result<Self, NoiseError> {
        let sampler = DiscreteLaplace::new(noise.rate()).ok_or(NoiseError::Rate(noise.rate()))?;
        Ok(Self { noise, sampler, distance, partition })
    }

    /// Returns the distribution of the dummies of one word at one provider.
    pub const fn noise(&self) -> TruncatedLaplace {
        self.noise
    }

    /// Returns d, the largest number of counts, added and removed together, in which protected histograms differ.
    pub const fn distance(&self) -> NonZeroU32 {
        self.distance
    }

    /// Returns the providers, and the number that is assumed to collude.
    pub const fn partition(&self) -> Partition {
        self.partition
    }

    /// Returns the ledger event of one use, including the disclosure of the vocabulary. It must be charged before anything
    /// leaves.
    ///
    /// # Errors
    /// [`NoiseError::Rate`] for a rate that is no epsilon; every rate that can be drawn is one.
    pub fn event(&self, vocabulary: WordDisclosure) -> Result<Event, NoiseError> {
        let rate = Epsilon::new(self.noise.rate()).map_err(|_| NoiseError::Rate(self.noise.rate()))?;
        let shift = self.noise.shift();
        let distance = self.distance;
        let partition = self.partition;
        let counts = Event::TruncatedLaplace { rate, shift, distance, partition };
        Ok(match vocabulary.event() {
            None => counts,
            Some(beside) => Event::Composed { events: vec![beside, counts] },
        })
    }

    /// Returns the guarantees against one provider, two, and so on up to all of them.
    pub fn promises(&self) -> Vec<CollusionPromise> {
        let providers = self.partition.providers();
        let promise = |colluding| {
            let partition = Partition::new(providers, colluding).ok()?;
            let (epsilon, delta) = self.noise.guarantee(self.distance, partition, Differences::Mixed);
            Some(CollusionPromise { colluding, epsilon, delta })
        };
        (1..=providers.get()).filter_map(NonZeroU32::new).filter_map(promise).collect()
    }

    /// Returns the expected number of dummies at all providers together, with `words` words in the vocabulary. Pieces without a
    /// vocabulary word are covered by dummies too, as if by one word more.
    pub fn expected(&self, words: u32) -> f64 {
        (f64::from(words) + 1.0) * f64::from(self.partition.providers().get()) * self.noise.mean()
    }

    /// Draws the number of dummies of one word at one provider: X = η₀ + discrete Laplace, 0 where X is negative.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> u64 {
        let count = i64::from(self.noise.shift()) + self.sampler.sample(rng);
        u64::try_from(count).unwrap_or(0)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMechanism {
    rate: Epsilon,
    shift: u32,
    distance: NonZeroU32,
    partition: Partition,
}

impl TryFrom<StoredMechanism> for DummyMechanism {
    type Error = NoiseError;
    fn try_from(stored: StoredMechanism) -> Result<Self, NoiseError> {
        Self::new(TruncatedLaplace::new(stored.rate, stored.shift)?, stored.distance, stored.partition)
    }
}

impl From<DummyMechanism> for StoredMechanism {
    fn from(mechanism: DummyMechanism) -> Self {
        let rate = mechanism.noise.rate();
        let shift = mechanism.noise.shift();
        // A rate that can be drawn is a finite number above 0.
        let rate = Epsilon::new(rate).expect("a rate that can be drawn is an epsilon");
        Self { rate, shift, distance: mechanism.distance, partition: mechanism.partition }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;
    use serde_json::Value;

    use super::*;
    use undertone_worker_site::testing::fixture;

    const SAMPLES: u32 = 100_000;

    fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    /// The noise of a rate, rounded down to the nearest rate that can be drawn.
    fn mechanism(rate: f64, shift: u32) -> DummyMechanism {
        let rate = Epsilon::new((rate * 2.0_f64.powi(32)).floor() / 2.0_f64.powi(32)).unwrap();
        DummyMechanism::new(TruncatedLaplace::new(rate, shift).unwrap(), count(1), Partition::NONE).unwrap()
    }

    fn draws(mechanism: &DummyMechanism, seed: u64) -> Vec<u64> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        (0..SAMPLES).map(|_| mechanism.draw(&mut rng)).collect()
    }

    /// Returns chi-square over counts with at least ten expected draws, with one bin for the rest, and the degrees of freedom.
    fn chi_square(noise: TruncatedLaplace, draws: &[u64]) -> (f64, f64) {
        let all = draws.len() as f64;
        let reach = 2 * u64::from(noise.shift()) + 200;
        let bins = (0..reach).map(|count| (count, noise.probability(count) * all)).filter(|(_, mean)| *mean >= 10.0);
        let (mut sum, mut observed, mut expected, mut freedom) = (0.0, 0.0, 0.0, 0.0);
        for (count, mean) in bins {
            let hits = draws.iter().filter(|draw| **draw == count).count() as f64;
            sum += (hits - mean).powi(2) / mean;
            (observed, expected, freedom) = (observed + hits, expected + mean, freedom + 1.0);
        }
        let rest = (all - expected).max(1.0);
        (sum + (all - observed - rest).powi(2) / rest, freedom)
    }

    #[test]
    fn draws_follow_the_distribution() {
        // The second is truncated often: its shift is small against its spread.
        for (seed, (rate, shift)) in (1..).zip([(0.5, 24), (0.3, 2), (1.25, 0), (0.0993, 130), (2.2, 10)]) {
            let mechanism = mechanism(rate, shift);
            let (sum, freedom) = chi_square(mechanism.noise(), &draws(&mechanism, seed));
            assert!(sum < freedom + 5.0 * (2.0 * freedom).sqrt(), "{rate} {shift}: {sum} with {freedom}");
        }
    }

    #[test]
    fn chi_square_detects_another_shift_or_rate() {
        let draws = draws(&mechanism(0.5, 24), 1);
        let (sum, freedom) = chi_square(mechanism(0.5, 25).noise(), &draws);
        assert!(sum > freedom + 100.0 * (2.0 * freedom).sqrt(), "{sum}");
        let (sum, freedom) = chi_square(mechanism(0.52, 24).noise(), &draws);
        assert!(sum > freedom + 5.0 * (2.0 * freedom).sqrt(), "{sum}");
    }

    #[test]
    fn draws_match_test_vectors() {
        let calibrated = |case: &Value| match case["kind"].as_str() {
            Some("calibrate") => true,
            // Tested where they are computed; nothing is drawn from them.
            Some("unpartitioned" | "thm42" | "thm44_cmin") => false,
            other => panic!("{}: no rule for kind {other:?}", case["id"]),
        };
        let calibrated: Vec<Value> = fixture::cases("preech").into_iter().filter(calibrated).collect();
        assert!(!calibrated.is_empty());
        for (seed, case) in (100..).zip(&calibrated) {
            let number = |field: &str| case[field].as_f64().unwrap();
            let shift = u32::try_from(case["eta0_corrected"].as_u64().unwrap()).unwrap();
            let draws = draws(&mechanism(number("base_epsilon") / number("d"), shift), seed);
            for (count, probability) in case["pmf_corrected"].as_object().unwrap() {
                let (count, probability): (u64, f64) = (count.parse().unwrap(), probability.as_f64().unwrap());
                let hits = draws.iter().filter(|draw| **draw == count).count() as f64;
                let mean = f64::from(SAMPLES) * probability;
                assert!((hits - mean).abs() <= 5.0 * mean.sqrt() + 2.0, "{}: {hits} of {mean} at {count}", case["id"]);
            }
            let mean = draws.iter().sum::<u64>() as f64 / f64::from(SAMPLES);
            let error = (number("var_noise") / f64::from(SAMPLES)).sqrt();
            assert!((mean - number("mean_noise")).abs() < 5.0 * error, "{}: mean {mean}", case["id"]);
        }
    }

    #[test]
    fn promises_grow_with_collusion_and_charge_is_the_assumed() {
        let epsilon = Epsilon::new(1.0).unwrap();
        let delta = Delta::new(1e-5).unwrap();
        let partition = Partition::new(count(5), count(2)).unwrap();
        let mechanism = DummyMechanism::calibrated(epsilon, delta, count(4), partition).unwrap();
        let promises = mechanism.promises();
        assert_eq!(promises.iter().map(|promise| promise.colluding.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(promises.is_sorted_by(|few, many| few.epsilon < many.epsilon));
        assert!(promises[1].epsilon <= 1.0 + 1e-9 && promises[1].delta <= 1e-5 * (1.0 + 1e-9), "{promises:?}");
        assert!(promises[2].epsilon > 1.0);
        let counts = mechanism.event(WordDisclosure::Nothing).unwrap();
        let Event::TruncatedLaplace { rate, shift, distance, partition: stated } = &counts else {
            panic!("{counts:?}")
        };
        assert_eq!((*shift, *distance, *stated), (mechanism.noise().shift(), count(4), partition));
        assert!((rate.get() - mechanism.noise().rate()).abs() < f64::EPSILON);
        let event = mechanism.event(WordDisclosure::Words(3)).unwrap();
        assert_eq!(event, Event::Composed { events: vec![Event::NonPrivate, counts] });
    }

    #[test]
    fn mechanism_round_trips_and_rejects_inexact_rates() {
        let epsilon = Epsilon::new(0.7).unwrap();
        let delta = Delta::new(1e-6).unwrap();
        let partition = Partition::new(count(3), count(1)).unwrap();
        let mechanism = DummyMechanism::calibrated(epsilon, delta, count(7), partition).unwrap();
        let stored = serde_json::to_value(mechanism).unwrap();
        assert_eq!(serde_json::from_value::<DummyMechanism>(stored.clone()).unwrap(), mechanism);
        let mut bent = stored;
        bent["rate"] = 0.1.into();
        assert!(serde_json::from_value::<DummyMechanism>(bent).unwrap_err().to_string().contains("noise.rate"));
    }
}
