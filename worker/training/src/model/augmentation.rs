//! Alterations of the features of an utterance: masked runs of frames and of coefficients (Park et al. 2019,
//! "SpecAugment: A simple data augmentation method for automatic speech recognition", section 2), and noise.
//!
//! Labels keep their frames, so the alterations suit each loss of speech. The altered features depend on the utterance, on
//! public numbers and on the given coins.

use std::ops::Range;

use rand_chacha::rand_core::Rng;
use undertone_api::job::dp_sgd::{MaskedRuns, UnitAugmentation};

use super::Normalizer;

/// Returns the altered features `[frames, inputs]` of an utterance. A masked value is the mean of its coefficient, which is 0
/// after normalization. The noise is relative to the deviation of the coefficient.
pub(super) fn alter_features(
    features: &[f32],
    normalizer: &Normalizer,
    augmentation: &UnitAugmentation,
    rng: &mut impl Rng,
) -> Vec<f32> {
    let inputs = normalizer.mean.len().max(1);
    let mut altered = features.to_vec();
    if augmentation.noise > 0.0 {
        let scale = augmentation.noise as f32;
        for frame in altered.chunks_exact_mut(inputs) {
            for (value, deviation) in frame.iter_mut().zip(&normalizer.deviation) {
                *value += scale * deviation * draw_normal(rng);
            }
        }
    }
    for frames in draw_runs(augmentation.frame_masks, features.len() / inputs, rng) {
        for frame in altered.chunks_exact_mut(inputs).skip(frames.start).take(frames.len()) {
            frame.copy_from_slice(&normalizer.mean);
        }
    }
    for run in draw_runs(augmentation.coefficient_masks, inputs, rng) {
        for frame in altered.chunks_exact_mut(inputs) {
            frame[run.clone()].copy_from_slice(&normalizer.mean[run.clone()]);
        }
    }
    altered
}

/// Draws runs among `length` places: each of a uniform length from 0 to the longest, and at most half of the places, at a
/// uniform position.
fn draw_runs(masks: Option<MaskedRuns>, length: usize, rng: &mut impl Rng) -> Vec<Range<usize>> {
    let Some(MaskedRuns { count, longest }) = masks else { return Vec::new() };
    let most = (longest as usize).min(length / 2);
    let draw = |_| {
        let run = draw_below(most + 1, rng);
        let start = draw_below(length - run + 1, rng);
        start..start + run
    };
    (0..count).map(draw).collect()
}

/// Draws a number below `count`; a bias of 2⁻³² in an alteration is harmless.
fn draw_below(count: usize, rng: &mut impl Rng) -> usize {
    (rng.next_u64() % count as u64) as usize
}

/// Draws an approximately normal number: the sum of four uniform numbers of 16 bits, with mean 0 and variance 1, at most 2√3.
fn draw_normal(rng: &mut impl Rng) -> f32 {
    let bits = rng.next_u64();
    let sum: u64 = [0, 16, 32, 48].into_iter().map(|shift| (bits >> shift) & 0xffff).sum();
    (sum as f32 / 65_535.0 - 2.0) * 3.0_f32.sqrt()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;
    use undertone_api::job::dp_sgd::{MaskedRuns, UnitAugmentation};

    use super::{alter_features, draw_runs};
    use crate::model::Normalizer;

    const INPUTS: usize = 5;
    const NONE: UnitAugmentation =
        UnitAugmentation { copies: 2, frame_masks: None, coefficient_masks: None, noise: 0.0 };

    fn normalizer() -> Normalizer {
        Normalizer { mean: vec![7.0; INPUTS], deviation: vec![2.0; INPUTS] }
    }

    /// Returns features of which no value is the mean.
    fn features(frames: usize) -> Vec<f32> {
        (0..frames * INPUTS).map(|place| 10.0 + place as f32).collect()
    }

    fn alter(augmentation: UnitAugmentation, frames: usize, seed: u64) -> Vec<f32> {
        alter_features(&features(frames), &normalizer(), &augmentation, &mut ChaCha20Rng::seed_from_u64(seed))
    }

    fn is_masked(value: f32) -> bool {
        value.to_bits() == 7.0_f32.to_bits()
    }

    #[test]
    fn runs_have_the_declared_number_and_bounds() {
        let masks = MaskedRuns { count: 3, longest: 6 };
        let mut lengths = [0_u32; 7];
        for seed in 0..500 {
            let runs = draw_runs(Some(masks), 40, &mut ChaCha20Rng::seed_from_u64(seed));
            assert_eq!(runs.len(), 3);
            for run in runs {
                assert!(run.start <= run.end && run.end <= 40, "{run:?}");
                lengths[run.len()] += 1;
            }
        }
        // 1,500 runs of seven lengths: 214 each, and five standard deviations of 14.
        assert!(lengths.iter().all(|count| (145..=285).contains(count)), "{lengths:?}");
        assert!(draw_runs(None, 40, &mut ChaCha20Rng::seed_from_u64(1)).is_empty());
    }

    #[test]
    fn run_is_at_most_half_of_a_short_utterance() {
        let masks = Some(MaskedRuns { count: 8, longest: 50 });
        for length in 0..12 {
            for seed in 0..50 {
                let runs = draw_runs(masks, length, &mut ChaCha20Rng::seed_from_u64(seed));
                assert!(runs.iter().all(|run| run.len() <= length / 2 && run.end <= length), "{length}: {runs:?}");
            }
        }
    }

    #[test]
    fn masks_are_whole_frames_or_whole_coefficients() {
        let original = features(30);
        for seed in 0..100 {
            let frames =
                alter(UnitAugmentation { frame_masks: Some(MaskedRuns { count: 1, longest: 9 }), ..NONE }, 30, seed);
            let masked: Vec<usize> = (0..30).filter(|frame| is_masked(frames[frame * INPUTS])).collect();
            assert!(masked.len() <= 9 && masked.is_sorted_by(|a, b| a + 1 == *b), "{masked:?}");
            for (place, value) in frames.iter().enumerate() {
                let is_in_run = masked.contains(&(place / INPUTS));
                assert!(
                    is_masked(*value) == is_in_run && (is_in_run || value.to_bits() == original[place].to_bits()),
                    "{place}"
                );
            }
            let coefficients =
                UnitAugmentation { coefficient_masks: Some(MaskedRuns { count: 1, longest: 8 }), ..NONE };
            let altered = alter(coefficients, 30, seed);
            let masked: Vec<usize> = (0..INPUTS).filter(|coefficient| is_masked(altered[*coefficient])).collect();
            assert!(masked.len() <= INPUTS / 2 && masked.is_sorted_by(|a, b| a + 1 == *b), "{masked:?}");
            for (place, value) in altered.iter().enumerate() {
                assert_eq!(is_masked(*value), masked.contains(&(place % INPUTS)), "{place}");
            }
        }
    }

    #[test]
    fn noise_has_the_declared_deviation() {
        let altered = alter(UnitAugmentation { noise: 0.5, ..NONE }, 4000, 3);
        let changes: Vec<f64> =
            altered.iter().zip(features(4000)).map(|(after, before)| f64::from(*after) - f64::from(before)).collect();
        let count = changes.len() as f64;
        let mean = changes.iter().sum::<f64>() / count;
        let deviation = (changes.iter().map(|change| (change - mean).powi(2)).sum::<f64>() / count).sqrt();
        // Half of the deviation 2; 20,000 values have a standard error of 0.007.
        assert!(mean.abs() < 0.04 && (deviation - 1.0).abs() < 0.03, "{mean} {deviation}");
    }

    #[test]
    fn alteration_follows_from_the_coins() {
        let usual = UnitAugmentation::with_usual_alterations(4);
        assert_eq!(alter(usual, 50, 1), alter(usual, 50, 1));
        assert_ne!(alter(usual, 50, 1), alter(usual, 50, 2));
        assert_eq!(alter(NONE, 50, 1), features(50));
        assert!(alter(usual, 0, 1).is_empty());
    }
}
