//! A random voice for each piece. A speaker whose pieces all leave in one converted voice keeps marks of his own in it: the length of his
//! vocal tract beyond the mean spectrum, the range of each coefficient, his breath. Here these marks are drawn anew for each piece, for true
//! pieces and dummies alike, so that they vary more within a speaker than between speakers (random warping of the frequency axis:
//! Jaitly and Hinton, "Vocal tract length perturbation improves speech recognition", ICML workshop 2013).
//!
//! The draws depend on the digest of the piece. So the same piece always has the same voice, and somebody without the piece
//! cannot predict it.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

use super::envelope::{self, COEFFICIENTS, EnvelopeFrame};
use super::normal::TARGET;

/// Logarithm of the largest factor of frequencies.
const TRACT: f64 = 0.25;
/// Logarithm of the largest factor of the range of a coefficient.
const RANGE: f64 = 0.4;
/// Deviation of the shift of a coefficient, in deviations of the target voice.
const SHIFT: f64 = 0.6;
/// Logarithm of the largest factor of voicing.
const VOICING: f64 = 0.3;

/// The random voice of one piece.
pub(super) struct PieceVariation {
    tract: f64,
    ranges: [f64; COEFFICIENTS],
    shifts: [f64; COEFFICIENTS],
    voicing: f64,
}

impl PieceVariation {
    /// Draws the voice of a piece.
    pub(super) fn draw(samples: &[f64]) -> Self {
        let mut digest = Sha256::new();
        for sample in samples {
            digest.update(sample.to_le_bytes());
        }
        let mut rng = ChaCha20Rng::from_seed(digest.finalize().into());
        let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
        Self {
            tract: (TRACT * uniform()).exp(),
            ranges: std::array::from_fn(|_| (RANGE * uniform()).exp()),
            // The sum of twelve has nearly a normal distribution, of variance 4.
            shifts: std::array::from_fn(|_| SHIFT * 0.5 * (0..12).map(|_| uniform()).sum::<f64>()),
            voicing: (VOICING * uniform()).exp(),
        }
    }

    /// Scales the frequencies of measured envelopes.
    pub(super) fn scale_tract(&self, frames: &mut [EnvelopeFrame]) {
        envelope::scale_frequencies(frames, self.tract);
    }

    /// Varies the first `coefficients` of normalized envelopes.
    pub(super) fn vary(&self, frames: &mut [EnvelopeFrame], coefficients: usize) {
        for frame in frames {
            let marks = self.ranges.iter().zip(&self.shifts).zip(&TARGET);
            for (value, ((range, shift), (mean, deviation))) in frame.iter_mut().zip(marks).take(coefficients) {
                *value = mean + (*value - mean) * range + shift * deviation;
            }
        }
    }

    /// Varies voicing, 0 to 1.
    pub(super) fn vary_voicing(&self, voicing: &mut [f64]) {
        for value in voicing {
            *value = (*value * self.voicing).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COEFFICIENTS, PieceVariation, SHIFT, TARGET, TRACT};

    #[test]
    fn pieces_vary_independently_within_their_limits() {
        let pieces: Vec<PieceVariation> = (0..2_000).map(|n| PieceVariation::draw(&[f64::from(n)])).collect();
        let mean = |of: &dyn Fn(&PieceVariation) -> f64| pieces.iter().map(of).sum::<f64>() / pieces.len() as f64;
        assert!(pieces.iter().all(|piece| piece.tract.ln().abs() <= TRACT));
        assert!(mean(&|piece| piece.tract.ln()).abs() < 0.02);
        assert!((mean(&|piece| piece.shifts[3].powi(2)).sqrt() / SHIFT - 1.0).abs() < 0.05);
        assert!(mean(&|piece| piece.shifts[3] * piece.shifts[4]).abs() < 0.04);
        let bits = |samples: &[f64]| PieceVariation::draw(samples).shifts.map(f64::to_bits);
        assert_eq!(bits(&[0.5, 0.25]), bits(&[0.5, 0.25]));
        assert_ne!(bits(&[0.5, 0.25]), bits(&[0.25, 0.5]));
    }

    #[test]
    fn variation_scales_around_the_mean_and_keeps_the_rest() {
        let piece = PieceVariation::draw(&[0.1]);
        let mut frames = vec![[0.0; COEFFICIENTS]; 2];
        for (k, (mean, deviation)) in TARGET.iter().enumerate() {
            (frames[0][k], frames[1][k]) = (*mean, mean + deviation);
        }
        let before = frames.clone();
        piece.vary(&mut frames, 8);
        for (k, (mean, deviation)) in TARGET.iter().enumerate().take(8) {
            assert!((frames[0][k] - mean - piece.shifts[k] * deviation).abs() < 1e-9, "{k}");
            assert!((frames[1][k] - frames[0][k] - deviation * piece.ranges[k]).abs() < 1e-9, "{k}");
        }
        assert_eq!(frames[1][8..], before[1][8..]);
    }
}
