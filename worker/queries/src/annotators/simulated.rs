//! Simulated annotators for rehearsals: right with a stated probability, or each with a probability of its own.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use xxhash_rust::xxh3::xxh3_64;

/// Gives the true label with a probability, otherwise one of the other labels, each with the same probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedAnnotator {
    accuracy: f64,
    labels: u16,
    seed: u64,
}

impl SimulatedAnnotator {
    /// Makes an annotator that is right with probability `accuracy`, from 0 to 1; with a single label, always.
    pub const fn new(accuracy: f64, labels: u16, seed: u64) -> Self {
        Self { accuracy, labels, seed }
    }

    /// Draws `count` annotators. The accuracy of each is drawn from a normal distribution with mean `mean` and standard
    /// deviation `deviation`, and limited to 0 … 1. The same seed gives the same annotators.
    pub fn draw(count: u32, mean: f64, deviation: f64, labels: u16, seed: u64) -> Vec<Self> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        // This stream differs from every annotator's stream of answers, which has its number.
        rng.set_stream(u64::MAX);
        let accuracy = |_| {
            let offset: f64 = StandardNormal.sample(&mut rng);
            Self::new((mean + deviation * offset).clamp(0.0, 1.0), labels, seed)
        };
        (0..count).map(accuracy).collect()
    }

    /// Returns the probability of a right answer.
    pub const fn accuracy(&self) -> f64 {
        self.accuracy
    }

    /// Returns the answer of annotator number `annotator` to a text. It is the same at each call, and independent for
    /// different texts and annotators.
    pub fn answer(&self, annotator: u32, text: &str, truth: u16) -> u16 {
        let mut rng = ChaCha20Rng::seed_from_u64(self.seed ^ xxh3_64(text.as_bytes()));
        rng.set_stream(u64::from(annotator));
        let chance = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        if chance < self.accuracy || self.labels < 2 {
            return truth;
        }
        let other = (rng.next_u64() % (u64::from(self.labels) - 1)) as u16;
        if other < truth { other } else { other + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::SimulatedAnnotator;

    #[test]
    fn simulated_annotator_meets_its_accuracy() {
        let annotator = SimulatedAnnotator::new(0.8, 5, 3);
        let mut frequencies = [0_u32; 5];
        for text in 0..20_000 {
            frequencies[usize::from(annotator.answer(0, &text.to_string(), 2))] += 1;
        }
        // Five standard deviations of 20,000 draws.
        assert!((f64::from(frequencies[2]) - 16_000.0).abs() < 5.0 * 56.6, "{frequencies:?}");
        assert!(
            [0, 1, 3, 4].iter().all(|label| (f64::from(frequencies[*label]) - 1000.0).abs() < 5.0 * 30.8),
            "{frequencies:?}"
        );
    }

    #[test]
    fn drawn_accuracies_are_normal_within_limits() {
        let accuracies = |deviation| -> Vec<f64> {
            SimulatedAnnotator::draw(20_000, 0.8, deviation, 3, 5).iter().map(SimulatedAnnotator::accuracy).collect()
        };
        assert!(accuracies(0.0).iter().all(|accuracy| (accuracy - 0.8).abs() < 1e-15));
        let narrow = accuracies(0.05);
        let mean = narrow.iter().sum::<f64>() / 20_000.0;
        let variance = narrow.iter().map(|accuracy| (accuracy - mean).powi(2)).sum::<f64>() / 20_000.0;
        // Five standard errors: σ/√n of the mean, σ/√(2n) of the deviation. 1 is four deviations away.
        assert!((mean - 0.8).abs() < 5.0 * 0.05 / 141.4, "{mean}");
        assert!((variance.sqrt() - 0.05).abs() < 5.0 * 0.05 / 200.0, "{variance}");
        let wide = accuracies(0.5);
        assert!(wide.iter().all(|accuracy| (0.0..=1.0).contains(accuracy)));
        // Φ(−0.4) = 0.3446 of them are limited to 1, Φ(−1.6) = 0.0548 to 0.
        let share = |limit: f64| wide.iter().filter(|one| (**one - limit).abs() < 1e-15).count() as f64 / 20_000.0;
        assert!(
            (share(1.0) - 0.3446).abs() < 0.017 && (share(0.0) - 0.0548).abs() < 0.009,
            "{} {}",
            share(1.0),
            share(0.0)
        );
        assert_eq!(accuracies(0.05), narrow, "the same seed, the same annotators");
    }

    #[test]
    fn simulated_answers_are_stable_per_annotator() {
        let annotator = SimulatedAnnotator::new(0.5, 10, 3);
        let all = |number| (0..200).map(|text| annotator.answer(number, &text.to_string(), 4)).collect::<Vec<_>>();
        assert_eq!(all(0), all(0));
        assert_ne!(all(0), all(1));
        let perfect = SimulatedAnnotator::new(1.0, 10, 3);
        assert!((0..200).all(|text| perfect.answer(0, &text.to_string(), 4) == 4));
        let wrong = SimulatedAnnotator::new(0.0, 10, 3);
        assert!((0..200).all(|text| wrong.answer(0, &text.to_string(), 4) != 4));
    }
}
