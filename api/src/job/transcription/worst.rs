//! The worst-case cost of a job. [`CostEstimate`](super::CostEstimate) holds expected figures; a single transmission does not
//! exceed the figure here. Retransmissions, after a provider heard a sound and did not answer, come on top. It uses
//! public numbers alone: the spec, prices, and the rough size of the recordings as declared by their owner.

use std::collections::BTreeMap;

use undertone_privacy::histogram::{HistogramError, TruncatedLaplace};

use super::Spec;
use super::price::{Money, RATE, Tariff};
use super::window::{SOUND, most_windows};

/// The probability that a provider hears more dummies than are counted here.
const UNLIKELY: f64 = 1e-9;

/// Returns the most that a job costs by `tariffs`, which are those of the spec's providers, by currency, sorted. At
/// most `recordings` that last `seconds` in all have a piece in every window, and all pieces go to the dearest provider
/// of each currency. Every sound, true piece or dummy, lasts [`SOUND`] seconds and is one request. A provider hears
/// more dummies than are counted with a probability below 10⁻⁹. Retransmissions are not counted.
///
/// # Errors
/// [`HistogramError`] if the spec has no noise.
pub fn worst(spec: &Spec, tariffs: &[Tariff], recordings: u64, seconds: u64) -> Result<Vec<Money>, HistogramError> {
    let dummies = most_dummies(spec.noise()?, f64::from(spec.vocabulary.most()) + 1.0).ceil() as u64;
    let pieces = most_windows(recordings, seconds);
    let samples = (SOUND * f64::from(RATE)).round() as u64;
    // By currency: true pieces at the dearest, and dummies at all.
    let mut sums = BTreeMap::<String, (u64, u64)>::new();
    for tariff in tariffs {
        let dummy_cost = tariff.alike(dummies, samples);
        let (recorded, all) = sums.entry(dummy_cost.currency).or_default();
        *recorded = (*recorded).max(tariff.alike(pieces, samples).nanos);
        *all = all.saturating_add(dummy_cost.nanos);
    }
    let sum = |(currency, (recorded, dummy_cost)): (String, (u64, u64))| Money {
        currency,
        nanos: recorded.saturating_add(dummy_cost),
    };
    Ok(sums.into_iter().map(sum).collect())
}

/// Returns a number of dummies that `draws` of the noise exceed with probability at most [`UNLIKELY`]: Chernoff's
/// bound. With α = e^{−s} and X as in [`undertone_privacy::histogram`], E\[e^{λ(X−η₀)}\] = (1−α)²/((1−αe^λ)(1−αe^{−λ}))
/// for 0 < λ < s, and truncation at 0 adds at most Pr\[X ≤ 0\] e^{−λη₀} to it.
fn most_dummies(noise: TruncatedLaplace, draws: f64) -> f64 {
    let (rate, shift) = (noise.rate(), f64::from(noise.shift()));
    let alpha = libm::exp(-rate);
    let bound = |part: u32| {
        let at = rate * f64::from(part) / 16.0;
        let (up, down) = (1.0 - alpha * libm::exp(at), 1.0 - alpha * libm::exp(-at));
        let moment = (1.0 - alpha) * (1.0 - alpha) / (up * down) + noise.probability(0) * libm::exp(-at * shift);
        draws * shift + (draws * libm::log(moment) - libm::log(UNLIKELY)) / at
    };
    (1..16).map(bound).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use undertone_privacy::Epsilon;
    use undertone_privacy::histogram::TruncatedLaplace;

    use super::super::tests::example;
    use super::super::{CostEstimate, Price, Spec};
    use super::{Tariff, UNLIKELY, most_dummies, worst};

    fn tariffs(spec: &Spec) -> Vec<Tariff> {
        spec.providers.iter().map(|provider| provider.price.as_ref().unwrap().tariff().unwrap()).collect()
    }

    /// Returns the probability of more than `most` dummies in `draws` draws, by convolution.
    fn tail_probability(noise: TruncatedLaplace, draws: usize, most: f64) -> f64 {
        let length = 600;
        let one: Vec<f64> = (0..length).map(|count| noise.probability(count)).collect();
        let mut sum = vec![1.0];
        for _ in 0..draws {
            let mut next = vec![0.0; sum.len() + one.len() - 1];
            for (at, first) in sum.iter().enumerate() {
                for (more, second) in one.iter().enumerate() {
                    next[at + more] += first * second;
                }
            }
            next.truncate(length as usize);
            sum = next;
        }
        sum.iter().skip(most.ceil() as usize + 1).sum()
    }

    #[test]
    fn probability_of_more_dummies_is_bounded() {
        for (rate, shift) in [(0.5, 0), (0.5, 3), (0.37, 35), (2.0, 10)] {
            let noise = TruncatedLaplace::new(Epsilon::new(rate).unwrap(), shift).unwrap();
            for draws in [1, 3] {
                let most = most_dummies(noise, draws as f64);
                let chance = tail_probability(noise, draws, most);
                assert!(chance <= UNLIKELY, "{chance:e} at {rate}, {shift}, {draws}");
                let mean = draws as f64 * noise.mean();
                assert!(most > mean && most < mean + 60.0 / rate, "{most} at a mean of {mean}");
            }
        }
    }

    #[test]
    fn every_window_and_dummy_is_counted_at_the_dearest_provider() {
        let (spec, _) = example();
        let tariffs = tariffs(&spec);
        let dummies = most_dummies(spec.noise().unwrap(), 6.0).ceil() as u64;
        // 0.0077 and 0.016 a minute, both by the second, so 5 s for each sound: 81 windows at the latter, dummies at
        // both.
        let dummy_cost: u64 = [7_700_000_u64, 16_000_000].iter().map(|each| (each * 5 * dummies).div_ceil(60)).sum();
        let all = worst(&spec, &tariffs, 5, 100).unwrap();
        let [money] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(
            (money.currency.as_str(), money.nanos),
            ("USD", (16_000_000_u64 * 5 * 81).div_ceil(60) + dummy_cost)
        );
        let expected = CostEstimate::from_spec(&spec, 100).unwrap().cost();
        assert!(money.nanos > expected[0].nanos);
    }

    #[test]
    fn currencies_are_not_added_up_and_no_number_runs_over() {
        let (spec, _) = example();
        let euro =
            Price { currency: "EUR".to_owned(), per_minute: "999999".to_owned(), step_seconds: 60, least_seconds: 60 };
        let mixed = [tariffs(&spec).swap_remove(0), euro.tariff().unwrap()];
        let all = worst(&spec, &mixed, u64::MAX, u64::MAX).unwrap();
        let currencies: Vec<&str> = all.iter().map(|money| money.currency.as_str()).collect();
        assert_eq!(currencies, ["EUR", "USD"]);
        assert_eq!(all[0].nanos, u64::MAX);
    }
}
