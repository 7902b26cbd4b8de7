//! How many pieces of one word a job sets aside: as many as its plan asks for, whatever is drawn, but for a chance of 2⁻⁴⁰.
//!
//! Known from the spec alone, so that nothing is learned from it. Let X₁ … X_N be what the providers are to hear of the word, each
//! max(0, η₀ + a discrete Laplace variable) with α = e^{−s}. Two bounds of the chance that their sum is above t are looked at, and
//! the better one is taken:
//!
//! * One of them is above u = ⌊t/N⌋: at most N α^{u+1−η₀}/(1+α), for u ≥ η₀.
//! * Chernoff's: M(λ)^N e^{−λ(t+1)} for every 0 < λ < s, where
//!   E\[e^{λX}\] ≤ M(λ) = 1 + e^{λη₀} (1−α)² / ((1−αe^λ)(1−αe^{−λ})), for e^{λ max(0, Y)} ≤ 1 + e^{λY}.

use crate::speech::transcribe::noise::Mechanism;

/// ln 2⁴⁰: the chance, over all words, that a plan asks for more.
const CHANCE: f64 = 40.0 * std::f64::consts::LN_2;
/// Values of λ that are tried.
const TRIED: u32 = 400;

/// The most that a plan with `words` in its vocabulary asks for of one of them, or of those without any, at all providers together.
pub fn most(mechanism: &Mechanism, words: u32) -> u32 {
    let noise = mechanism.noise();
    let (rate, shift) = (noise.rate(), f64::from(noise.shift()));
    let providers = f64::from(mechanism.partition().providers().get());
    // What the chance of each word may be, as a logarithm: they add up.
    let chance = CHANCE + (f64::from(words) + 1.0).ln();
    let each = shift + ((chance + providers.ln() - (-rate).exp().ln_1p()) / rate - 1.0).max(0.0).ceil();
    let together = (1..TRIED)
        .map(|step| {
            let lambda = rate * f64::from(step) / f64::from(TRIED);
            let parts = -(-rate).exp_m1();
            // 1 − αe^λ and 1 − αe^{−λ}, without the loss of subtracting what is nearly one.
            let (near, far) = (-(lambda - rate).exp_m1(), -(-lambda - rate).exp_m1());
            let moment = lambda * shift + 2.0 * parts.ln() - near.ln() - far.ln();
            // ln(1 + e^moment), whatever it is.
            let moment = moment.max(0.0) + (-moment.abs()).exp().ln_1p();
            (providers * moment + chance) / lambda
        })
        .fold(f64::INFINITY, f64::min)
        .ceil();
    // More than there are numbers is more than anybody has.
    (providers * each).min(together) as u32
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::num::NonZeroU32;

    use undertone_privacy::Epsilon;
    use undertone_privacy::histogram::{Partition, TruncatedLaplace};

    use super::*;

    fn mechanism(rate: f64, shift: u32, providers: u32) -> Mechanism {
        let rate = Epsilon::new((rate * 2.0_f64.powi(32)).floor() / 2.0_f64.powi(32)).unwrap();
        let partition = Partition::new(NonZeroU32::new(providers).unwrap(), NonZeroU32::MIN).unwrap();
        Mechanism::new(TruncatedLaplace::new(rate, shift).unwrap(), NonZeroU32::MIN, partition).unwrap()
    }

    /// ln of the chance that the providers together hear more than `most`, by adding up.
    fn beyond(mechanism: &Mechanism, most: u32) -> f64 {
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
        // The smallest first, so that nothing is lost.
        all.iter().skip(most as usize + 1).rev().sum::<f64>().ln()
    }

    #[test]
    fn a_plan_asks_for_more_with_a_chance_of_two_to_the_minus_forty_and_hardly_less() {
        for (rate, shift, providers, words) in
            [(0.372, 35, 2, 5), (0.5, 24, 1, 1), (1.0, 20, 3, 20), (0.3, 2, 2, 3), (2.2, 10, 5, 100), (1.25, 0, 1, 1)]
        {
            let mechanism = mechanism(rate, shift, providers);
            let most = most(&mechanism, words);
            let allowed = -CHANCE - f64::from(words + 1).ln();
            assert!(beyond(&mechanism, most) <= allowed, "{rate}, {shift}, {providers}: {most}");
            // A bound, not the number itself: at most so much too many.
            let least = (0..most).rev().find(|fewer| beyond(&mechanism, *fewer) > allowed).unwrap() + 1;
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
