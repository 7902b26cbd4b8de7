//! The expected size and cost of a job: dummies, seconds of speech, money. It uses public numbers alone: the spec, and
//! the rough length of the recordings as declared by their owner.

use serde::{Deserialize, Serialize};
use undertone_privacy::histogram::HistogramError;

use super::Spec;
use super::price::{Money, RATE};
use super::window::{SOUND, WINDOW};

/// The expected load and cost of one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderEstimate {
    /// Its name.
    pub provider: String,
    /// True pieces.
    pub pieces: f64,
    /// Dummies.
    pub dummies: f64,
    /// Seconds of sound of both.
    pub seconds: f64,
    /// The upper bound of the cost: every sound is one request. `None` if the spec states no price.
    pub cost: Option<Money>,
    /// The cost there of the recordings alone, in requests of a minute, without protection.
    pub bare: Option<Money>,
}

/// The expected size and cost of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostEstimate {
    /// E\[η\]: dummies of one word at one provider.
    pub each: f64,
    /// Standard deviation of that number.
    pub deviation: f64,
    /// Dummies of one word at all providers together.
    pub per_word: f64,
    /// Dummies in all.
    pub dummies: f64,
    /// Seconds of recordings.
    pub recorded: f64,
    /// Seconds of dummies: made, converted to the one voice, and sent with the recordings.
    pub extra: f64,
    /// By provider, in the spec's order.
    pub providers: Vec<ProviderEstimate>,
}

impl CostEstimate {
    /// Computes the estimate for recordings of `seconds` in all, with a piece in every window. Every piece counts as
    /// sent, so the sum is an upper bound: sensitive and crowded pieces stay at the site.
    ///
    /// # Errors
    /// [`HistogramError`] if the spec has no noise.
    pub fn from_spec(spec: &Spec, seconds: u64) -> Result<Self, HistogramError> {
        Self::from_word_count(spec, spec.vocabulary.most(), seconds)
    }

    /// Computes the estimate for `words` in the vocabulary, regardless of the spec's list: for a plan without a list of
    /// words.
    ///
    /// # Errors
    /// As [`CostEstimate::from_spec`].
    pub fn from_word_count(spec: &Spec, words: u32, seconds: u64) -> Result<Self, HistogramError> {
        let noise = spec.noise()?;
        let providers = spec.providers.len() as f64;
        let each = noise.mean();
        let recorded = seconds as f64;
        let dummies = spec.expected_dummies(words)?;
        let pieces = recorded / WINDOW / providers;
        let theirs = dummies / providers;
        let samples = |seconds: f64| (seconds * f64::from(RATE)).ceil() as u64;
        let estimate_provider = |provider: &super::Provider| {
            let tariff = provider.price.as_ref().and_then(|price| price.tariff().ok());
            // The expected number of requests, all of one length: one multiplication by the tariff.
            let cost = |requests: f64, seconds: f64| {
                tariff.as_ref().map(|tariff| tariff.alike(requests.ceil() as u64, samples(seconds)))
            };
            ProviderEstimate {
                provider: provider.name.clone(),
                pieces,
                dummies: theirs,
                seconds: (pieces + theirs) * SOUND,
                cost: cost(pieces + theirs, SOUND),
                bare: cost(recorded / 60.0, recorded.min(60.0)),
            }
        };
        Ok(Self {
            each,
            deviation: noise.variance().max(0.0).sqrt(),
            per_word: each * providers,
            dummies,
            recorded,
            extra: dummies * SOUND,
            providers: spec.providers.iter().map(estimate_provider).collect(),
        })
    }

    /// Returns the sum over all providers, by currency, sorted; empty without prices.
    pub fn cost(&self) -> Vec<Money> {
        sum(self.providers.iter().filter_map(|provider| provider.cost.clone()))
    }

    /// Returns the cheapest provider's cost for the recordings alone, by currency, sorted.
    pub fn bare(&self) -> Vec<Money> {
        let mut all: Vec<Money> = self.providers.iter().filter_map(|provider| provider.bare.clone()).collect();
        all.sort_by(|a, b| (&a.currency, a.nanos).cmp(&(&b.currency, b.nanos)));
        all.dedup_by(|next, first| next.currency == first.currency);
        all
    }
}

fn sum(all: impl Iterator<Item = Money>) -> Vec<Money> {
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for money in all {
        let sum = sums.entry(money.currency).or_default();
        *sum = sum.saturating_add(money.nanos);
    }
    sums.into_iter().map(|(currency, nanos)| Money { currency, nanos }).collect()
}
