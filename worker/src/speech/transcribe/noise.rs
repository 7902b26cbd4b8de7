//! Dummy words: how many a provider hears of each word of the vocabulary, and what that promises.
//!
//! The mechanism is [`TruncatedLaplace`] of the privacy crate with the corrected shift, drawn exactly: its rate is a multiple
//! of 2⁻³² nat, and [`DiscreteLaplace`] draws that rate and no other. What it promises against m of N providers that put
//! their parts together is told for every m, because whom one trusts not to collude belongs to the record.
//!
//! Nothing is drawn here twice, and nothing drawn is kept here: see [`plan`](super::plan).

use std::num::NonZeroU32;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use undertone_privacy::histogram::{Differences, HistogramError, Partition, TruncatedLaplace};
use undertone_privacy::{Delta, Epsilon, Event};

use super::vocabulary::Disclosure;
use crate::dp::noise::DiscreteLaplace;

/// Noise for one histogram at each of several providers. It differs from [`TruncatedLaplace`] in that it can surely be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Mechanism {
    noise: TruncatedLaplace,
    sampler: DiscreteLaplace,
    distance: NonZeroU32,
    partition: Partition,
}

/// What is promised where so many providers put their parts together. Rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// How many of them do.
    pub colluding: NonZeroU32,
    /// ε, nats.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

/// Why there is no such noise.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoiseError {
    /// No noise keeps what was asked.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    /// A rate that cannot be drawn exactly.
    #[error("noise.rate: {0} nats is no multiple of 2^-32 between 2^-32 and 2^20, so it cannot be drawn exactly")]
    Rate(f64),
}

impl Mechanism {
    /// The least noise that keeps (ε, δ) for histograms at distance d, counts added and removed together, against
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

    /// This noise, promised at this distance and against the colluding providers of this partition.
    ///
    /// # Errors
    /// [`NoiseError::Rate`] when its rate cannot be drawn exactly.
    pub fn new(noise: TruncatedLaplace, distance: NonZeroU32, partition: Partition) -> Result<Self, NoiseError> {
        let sampler = DiscreteLaplace::new(noise.rate()).ok_or(NoiseError::Rate(noise.rate()))?;
        Ok(Self { noise, sampler, distance, partition })
    }

    /// The distribution of the dummies of one word at one provider.
    pub const fn noise(&self) -> TruncatedLaplace {
        self.noise
    }

    /// d, the most counts in which histograms may differ that are not to be told apart, added and removed together.
    pub const fn distance(&self) -> NonZeroU32 {
        self.distance
    }

    /// The providers, and how many of them are assumed to collude.
    pub const fn partition(&self) -> Partition {
        self.partition
    }

    /// What one use of it is to the ledger: to be charged before anything leaves, with what the vocabulary discloses.
    ///
    /// # Errors
    /// [`NoiseError::Rate`] for a rate that is no epsilon; none that can be drawn is.
    pub fn event(&self, vocabulary: Disclosure) -> Result<Event, NoiseError> {
        let rate = Epsilon::new(self.noise.rate()).map_err(|_| NoiseError::Rate(self.noise.rate()))?;
        let (shift, distance, partition) = (self.noise.shift(), self.distance, self.partition);
        let counts = Event::TruncatedLaplace { rate, shift, distance, partition };
        Ok(match vocabulary.event() {
            None => counts,
            Some(beside) => Event::Composed { events: vec![beside, counts] },
        })
    }

    /// What it promises against one provider, two, and so on to all of them.
    pub fn promises(&self) -> Vec<Promise> {
        let providers = self.partition.providers();
        let promise = |colluding| {
            let partition = Partition::new(providers, colluding).ok()?;
            let (epsilon, delta) = self.noise.guarantee(self.distance, partition, Differences::Mixed);
            Some(Promise { colluding, epsilon, delta })
        };
        (1..=providers.get()).filter_map(NonZeroU32::new).filter_map(promise).collect()
    }

    /// How many dummies to expect at all providers together, with `words` in the vocabulary. The part of a piece that carries
    /// none of them has dummies too, as if it were one word more.
    pub fn expected(&self, words: u32) -> f64 {
        (f64::from(words) + 1.0) * f64::from(self.partition.providers().get()) * self.noise.mean()
    }

    /// Draws the dummies of one word at one provider: X = η₀ + discrete Laplace, none where X is below 0.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> u64 {
        let drawn = i64::from(self.noise.shift()) + self.sampler.sample(rng);
        u64::try_from(drawn).unwrap_or(0)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    rate: Epsilon,
    shift: u32,
    distance: NonZeroU32,
    partition: Partition,
}

impl TryFrom<Stored> for Mechanism {
    type Error = NoiseError;
    fn try_from(stored: Stored) -> Result<Self, NoiseError> {
        Self::new(TruncatedLaplace::new(stored.rate, stored.shift)?, stored.distance, stored.partition)
    }
}

impl From<Mechanism> for Stored {
    fn from(mechanism: Mechanism) -> Self {
        let (rate, shift) = (mechanism.noise.rate(), mechanism.noise.shift());
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
    use crate::speech::fixture;

    const SAMPLES: u32 = 100_000;

    fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    /// The noise of a rate, rounded down to what can be drawn.
    fn mechanism(rate: f64, shift: u32) -> Mechanism {
        let rate = Epsilon::new((rate * 2.0_f64.powi(32)).floor() / 2.0_f64.powi(32)).unwrap();
        Mechanism::new(TruncatedLaplace::new(rate, shift).unwrap(), count(1), Partition::NONE).unwrap()
    }

    fn draws(mechanism: &Mechanism, seed: u64) -> Vec<u64> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        (0..SAMPLES).map(|_| mechanism.draw(&mut rng)).collect()
    }

    /// Chi-square over counts with at least ten expected draws, with one bin for the rest; and its degrees of freedom.
    fn chi_square(noise: TruncatedLaplace, drawn: &[u64]) -> (f64, f64) {
        let all = drawn.len() as f64;
        let reach = 2 * u64::from(noise.shift()) + 200;
        let bins = (0..reach).map(|count| (count, noise.probability(count) * all)).filter(|(_, mean)| *mean >= 10.0);
        let (mut sum, mut seen, mut expected, mut freedom) = (0.0, 0.0, 0.0, 0.0);
        for (count, mean) in bins {
            let hits = drawn.iter().filter(|draw| **draw == count).count() as f64;
            sum += (hits - mean).powi(2) / mean;
            (seen, expected, freedom) = (seen + hits, expected + mean, freedom + 1.0);
        }
        let rest = (all - expected).max(1.0);
        (sum + (all - seen - rest).powi(2) / rest, freedom)
    }

    #[test]
    fn what_is_drawn_is_the_mechanism() {
        // The second is truncated often: the shift is small against the spread.
        for (seed, (rate, shift)) in (1..).zip([(0.5, 24), (0.3, 2), (1.25, 0), (0.0993, 130), (2.2, 10)]) {
            let mechanism = mechanism(rate, shift);
            let (sum, freedom) = chi_square(mechanism.noise(), &draws(&mechanism, seed));
            assert!(sum < freedom + 5.0 * (2.0 * freedom).sqrt(), "{rate} {shift}: {sum} with {freedom}");
        }
    }

    #[test]
    fn another_shift_than_the_mechanism_has_would_be_noticed() {
        let drawn = draws(&mechanism(0.5, 24), 1);
        let (sum, freedom) = chi_square(mechanism(0.5, 25).noise(), &drawn);
        assert!(sum > freedom + 100.0 * (2.0 * freedom).sqrt(), "{sum}");
        let (sum, freedom) = chi_square(mechanism(0.52, 24).noise(), &drawn);
        assert!(sum > freedom + 5.0 * (2.0 * freedom).sqrt(), "{sum}");
    }

    #[test]
    fn draws_follow_the_vectors() {
        let calibrated = |case: &Value| match case["kind"].as_str() {
            Some("calibrate") => true,
            // Tested where they are computed; nothing is drawn of them.
            Some("unpartitioned" | "thm42" | "thm44_cmin") => false,
            other => panic!("{}: no rule for kind {other:?}", case["id"]),
        };
        let calibrated: Vec<Value> = fixture::cases("preech").into_iter().filter(calibrated).collect();
        assert!(!calibrated.is_empty());
        for (seed, case) in (100..).zip(&calibrated) {
            let number = |field: &str| case[field].as_f64().unwrap();
            let shift = u32::try_from(case["eta0_corrected"].as_u64().unwrap()).unwrap();
            let drawn = draws(&mechanism(number("base_epsilon") / number("d"), shift), seed);
            for (count, probability) in case["pmf_corrected"].as_object().unwrap() {
                let (count, probability): (u64, f64) = (count.parse().unwrap(), probability.as_f64().unwrap());
                let hits = drawn.iter().filter(|draw| **draw == count).count() as f64;
                let mean = f64::from(SAMPLES) * probability;
                assert!((hits - mean).abs() <= 5.0 * mean.sqrt() + 2.0, "{}: {hits} of {mean} at {count}", case["id"]);
            }
            let mean = drawn.iter().sum::<u64>() as f64 / f64::from(SAMPLES);
            let error = (number("var_noise") / f64::from(SAMPLES)).sqrt();
            assert!((mean - number("mean_noise")).abs() < 5.0 * error, "{}: mean {mean}", case["id"]);
        }
    }

    #[test]
    fn the_promise_against_fewer_is_smaller_and_what_is_charged_is_the_assumed_one() {
        let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-5).unwrap());
        let partition = Partition::new(count(5), count(2)).unwrap();
        let mechanism = Mechanism::calibrated(epsilon, delta, count(4), partition).unwrap();
        let promises = mechanism.promises();
        assert_eq!(promises.iter().map(|promise| promise.colluding.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(promises.is_sorted_by(|few, many| few.epsilon < many.epsilon));
        assert!(promises[1].epsilon <= 1.0 + 1e-9 && promises[1].delta <= 1e-5 * (1.0 + 1e-9), "{promises:?}");
        assert!(promises[2].epsilon > 1.0);
        let charged = mechanism.event(Disclosure::Nothing).unwrap();
        let Event::TruncatedLaplace { rate, shift, distance, partition: stated } = &charged else {
            panic!("{charged:?}")
        };
        assert_eq!((*shift, *distance, *stated), (mechanism.noise().shift(), count(4), partition));
        assert!((rate.get() - mechanism.noise().rate()).abs() < f64::EPSILON);
        let told = mechanism.event(Disclosure::Words(3)).unwrap();
        assert_eq!(told, Event::Composed { events: vec![Event::NonPrivate, charged] });
    }

    #[test]
    fn it_comes_back_to_the_bit_and_never_with_a_rate_that_cannot_be_drawn() {
        let (epsilon, delta) = (Epsilon::new(0.7).unwrap(), Delta::new(1e-6).unwrap());
        let partition = Partition::new(count(3), count(1)).unwrap();
        let mechanism = Mechanism::calibrated(epsilon, delta, count(7), partition).unwrap();
        let kept = serde_json::to_value(mechanism).unwrap();
        assert_eq!(serde_json::from_value::<Mechanism>(kept.clone()).unwrap(), mechanism);
        let mut bent = kept;
        bent["rate"] = 0.1.into();
        assert!(serde_json::from_value::<Mechanism>(bent).unwrap_err().to_string().contains("noise.rate"));
    }
}
