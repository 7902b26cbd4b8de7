//! The number of pieces of one word that a job reserves: as many as its plan needs, except with probability 2⁻⁴⁰.
//!
//! It is computed from the spec alone, so it reveals nothing. Let X₁ … X_N be the providers' numbers of dummies of the word, each
//! max(0, η₀ + a discrete Laplace variable) with α = e^{−s}. The function evaluates two bounds of the probability that their
//! sum exceeds t, and uses the better one:
//!
//! * One of them exceeds u = ⌊t/N⌋: at most N α^{u+1−η₀}/(1+α), for u ≥ η₀.
//! * Chernoff's: M(λ)^N e^{−λ(t+1)} for every 0 < λ < s, where
//!   E\[e^{λX}\] ≤ M(λ) = 1 + e^{λη₀} (1−α)² / ((1−αe^λ)(1−αe^{−λ})), for e^{λ max(0, Y)} ≤ 1 + e^{λY}.

use crate::noise::DummyMechanism;

/// −ln of the probability, over all words, that a plan needs more: ln 2⁴⁰.
const CHANCE: f64 = 40.0 * std::f64::consts::LN_2;
/// Number of evaluated values of λ.
const TRIED: u32 = 400;

/// Returns the number of pieces that suffices, at all providers together, for any one of `words` vocabulary words, or for no word.
pub fn most(mechanism: &DummyMechanism, words: u32) -> u32 {
    let noise = mechanism.noise();
    let rate = noise.rate();
    let shift = f64::from(noise.shift());
    let providers = f64::from(mechanism.partition().providers().get());
    // Logarithm of the permitted probability for each word: the probabilities add up.
    let chance = CHANCE + (f64::from(words) + 1.0).ln();
    let each = shift + ((chance + providers.ln() - (-rate).exp().ln_1p()) / rate - 1.0).max(0.0).ceil();
    let together = (1..TRIED)
        .map(|step| {
            let lambda = rate * f64::from(step) / f64::from(TRIED);
            let parts = -(-rate).exp_m1();
            // 1 − αe^λ and 1 − αe^{−λ}, without cancellation.
            let near = -(lambda - rate).exp_m1();
            let far = -(-lambda - rate).exp_m1();
            let moment = lambda * shift + 2.0 * parts.ln() - near.ln() - far.ln();
            // ln(1 + e^moment), for any moment.
            let moment = moment.max(0.0) + (-moment.abs()).exp().ln_1p();
            (providers * moment + chance) / lambda
        })
        .fold(f64::INFINITY, f64::min)
        .ceil();
    // Saturates: no site has more pieces than that.
    (providers * each).min(together) as u32
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::num::NonZeroU32;

    use undertone_privacy::Epsilon;
    use undertone_privacy::histogram::{Partition, TruncatedLaplace};

    use super::*;

    fn mechanism(rate: f64, shift: u32, providers: u32) -> DummyMechanism {
        let rate = Epsilon::new((rate * 2.0_f64.powi(32)).floor() / 2.0_f64.powi(32)).unwrap();
        let partition = Partition::new(NonZeroU32::new(providers).unwrap(), NonZeroU32::MIN).unwrap();
        DummyMechanism::new(TruncatedLaplace::new(rate, shift).unwrap(), NonZeroU32::MIN, partition).unwrap()
    }

    /// Returns ln of the probability that the providers together need more than `most`, by summation.
    fn log_tail(mechanism: &DummyMechanism, most: u32) -> f64 {
        let noise = mechanism.noise();
        let reach = noise.shift() as usize + (120.0 / noise.rate()) as usize;
        let one: Vec<f64> = (0..=reach as u64).map(|count| noise.probability(count)).collect();
        let mut all = vec![1.0];
        for _ in 0..mechanism.partition().providers().get() {
            let mut sum = vec![0.0; all.len() + one.len() - 1];
            for (i, a) in all.iter().enumerate() {
                for (j, b) in one.iter().enumerate() {
                    sum[i + j] += a * b;
                }
            }
            all = sum;
        }
        // The smallest terms first, for accuracy.
        all.iter().skip(most as usize + 1).rev().sum::<f64>().ln()
    }

    #[test]
    fn bound_has_probability_two_to_the_minus_forty() {
        for (rate, shift, providers, words) in
            [(0.372, 35, 2, 5), (0.5, 24, 1, 1), (1.0, 20, 3, 20), (0.3, 2, 2, 3), (2.2, 10, 5, 100), (1.25, 0, 1, 1)]
        {
            let mechanism = mechanism(rate, shift, providers);
            let most = most(&mechanism, words);
            let allowed = -CHANCE - f64::from(words + 1).ln();
            assert!(log_tail(&mechanism, most) <= allowed, "{rate}, {shift}, {providers}: {most}");
            // The result is a bound, not the exact number: this is its largest excess.
            let least = (0..most).rev().find(|fewer| log_tail(&mechanism, *fewer) > allowed).unwrap() + 1;
            let spare = f64::from(most - least) / f64::from(most);
            assert!(spare < 0.2, "{rate}, {shift}, {providers}: {most}, where {least} would do");
        }
    }

    #[test]
    fn less_noise_and_fewer_providers_need_fewer_pieces() {
        let count = |rate, shift, providers, words| most(&mechanism(rate, shift, providers), words);
        assert!(count(1.0, 20, 2, 5) < count(0.5, 20, 2, 5));
        assert!(count(1.0, 20, 2, 5) < count(1.0, 30, 2, 5));
        assert!(count(1.0, 20, 1, 5) < count(1.0, 20, 2, 5));
        assert!(count(1.0, 20, 2, 5) <= count(1.0, 20, 2, 5_000));
    }
}
