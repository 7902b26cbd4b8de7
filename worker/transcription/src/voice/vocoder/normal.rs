//! Brings the envelopes of all speakers to the same distribution: feature warping (Pelecanos and Sridharan, "Feature warping for
//! robust speaker verification", Odyssey 2001). In a piece, the values of each coefficient are ranked, and each becomes the value of
//! its rank in the target's normal distribution. So every piece has the same mean spectrum, the same spectral variance and the same
//! dynamics, whatever the vocal tract, microphone and room; only the order of speech sounds remains.

use std::f64::consts::PI;

use super::envelope::{COEFFICIENTS, EnvelopeFrame};

/// Depth below the loudest frames (without the loudest twentieth) down to which a frame counts as speech, in dB; quieter frames are muted.
const DEPTH: f64 = 30.0;
/// Range below that over which frames fade out, in dB.
const FADE: f64 = 6.0;
/// Frames around speech that are not muted: 30 ms, in which sounds begin and end.
const AROUND: usize = 6;
/// Level of the loudest frame below which a piece is silence, in dB of full scale.
const SILENCE: f64 = -90.0;

/// Mean and deviation of each coefficient in the target voice: the means over 1,072 utterances of
/// 91 speakers of the public corpora AN4 and LibriSpeech (test-other), in speech frames. Such an average belongs to no speaker.
pub(super) const TARGET: [(f64, f64); COEFFICIENTS] = [
    (-58.67, 10.26),
    (13.43, 7.82),
    (1.18, 3.73),
    (4.74, 3.80),
    (-1.13, 2.49),
    (-0.74, 2.16),
    (-0.54, 1.83),
    (-0.64, 1.69),
    (-0.04, 1.55),
    (-0.51, 1.42),
    (-0.08, 1.21),
    (-0.22, 1.17),
    (-0.15, 1.08),
    (-0.09, 1.03),
    (-0.14, 0.98),
    (-0.40, 0.91),
    (-0.20, 0.86),
    (-0.31, 0.82),
    (-0.33, 0.78),
    (-0.19, 0.73),
];

/// Returns the gain of each frame, 0 to 1: 1 for speech and a margin around it.
pub(super) fn gains(levels: &[f64]) -> Vec<f64> {
    let mut sorted = levels.to_vec();
    sorted.sort_by(f64::total_cmp);
    let loudest = sorted.get(sorted.len().saturating_sub(1) * 95 / 100).copied().unwrap_or(f64::NEG_INFINITY);
    if loudest < SILENCE {
        return vec![0.0; levels.len()];
    }
    let gain = |level: &f64| ((level - (loudest - DEPTH - FADE)) / FADE).clamp(0.0, 1.0).powi(2);
    let gains: Vec<f64> = levels.iter().map(gain).collect();
    (0..gains.len())
        .map(|at| {
            let near = &gains[at.saturating_sub(AROUND)..(at + AROUND + 1).min(gains.len())];
            near.iter().copied().fold(0.0, f64::max)
        })
        .collect()
}

/// Brings the first `coefficients` of every frame to the target's distribution, and the others to its mean. Speech frames, with gain 1,
/// are ranked; every other frame gets the value of the rank that it would have.
pub(super) fn normalize(frames: &mut [EnvelopeFrame], gains: &[f64], coefficients: usize) {
    for (k, (mean, deviation)) in TARGET.iter().enumerate() {
        if k >= coefficients {
            for frame in frames.iter_mut() {
                frame[k] = *mean;
            }
            continue;
        }
        let speech = frames.iter().zip(gains).filter(|(_, gain)| **gain >= 1.0);
        let mut sorted: Vec<f64> = speech.map(|(frame, _)| frame[k]).collect();
        sorted.sort_by(f64::total_cmp);
        for frame in frames.iter_mut() {
            let below = sorted.partition_point(|value| *value < frame[k]) as f64;
            frame[k] = mean + deviation * quantile((below + 0.5) / (sorted.len() + 1) as f64);
        }
    }
}

/// Averages each frame with `reach` frames before and after, weighted by half a cosine.
pub(super) fn smooth(frames: &[EnvelopeFrame], reach: usize) -> Vec<EnvelopeFrame> {
    let weight = |distance: usize| 0.5 + 0.5 * (PI * distance as f64 / (reach + 1) as f64).cos();
    let mean = |at: usize| {
        let first = at.saturating_sub(reach);
        let near = &frames[first..(at + reach + 1).min(frames.len())];
        let (mut sums, mut weights) = ([0.0; COEFFICIENTS], 0.0);
        for (place, frame) in near.iter().enumerate() {
            let weight = weight(at.abs_diff(first + place));
            weights += weight;
            for (sum, value) in sums.iter_mut().zip(frame) {
                *sum += weight * value;
            }
        }
        sums.map(|sum| sum / weights)
    };
    (0..frames.len()).map(mean).collect()
}

/// Largest absolute value of a rank, in deviations.
const FURTHEST: f64 = 2.75;

/// Returns the standard normal quantile, to 4.5e-4 (Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.23).
fn quantile(share: f64) -> f64 {
    let t = (-2.0 * share.min(1.0 - share).max(1e-6).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let value = (t - above / below).clamp(0.0, FURTHEST);
    if share < 0.5 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::{COEFFICIENTS, TARGET, gains, normalize, quantile, smooth};

    #[test]
    fn quantiles_match_the_normal_distribution() {
        for (share, expected) in
            [(0.5, 0.0), (0.975, 1.959_964), (0.025, -1.959_964), (0.841_345, 1.0), (0.01, -2.326_348)]
        {
            assert!((quantile(share) - expected).abs() < 5e-4, "{share}: {}", quantile(share));
        }
        assert!((quantile(1e-9) + 2.75).abs() < 1e-12);
    }

    #[test]
    fn frames_get_the_target_distribution() {
        for (scale, shift) in [(1.0, 0.0), (9.0, -70.0)] {
            let value = |at: usize, k: usize| ((at * (2 * k + 7)) % 1_009) as f64 / 1_009.0;
            let mut frames: Vec<_> =
                (0..1_009).map(|at| std::array::from_fn(|k| value(at, k).powi(2) * scale + shift)).collect();
            normalize(&mut frames, &[1.0; 1_009], 13);
            for (k, (mean, deviation)) in TARGET.iter().enumerate().take(COEFFICIENTS) {
                let average = frames.iter().map(|frame| frame[k]).sum::<f64>() / 1_009.0;
                let spread = (frames.iter().map(|frame| (frame[k] - average).powi(2)).sum::<f64>() / 1_009.0).sqrt();
                let expected = if k < 13 { *deviation } else { 0.0 };
                assert!(
                    (average - mean).abs() < 0.02 * deviation && (spread - expected).abs() < 0.02 * deviation,
                    "{k}"
                );
            }
        }
    }

    #[test]
    fn frames_far_below_speech_are_muted_except_edges() {
        let mut levels = vec![-70.0; 100];
        levels[40..60].fill(-20.0);
        let gains = gains(&levels);
        assert!(gains[34..66].iter().all(|gain| (gain - 1.0).abs() < 1e-12));
        assert!(gains[..34].iter().chain(&gains[66..]).all(|gain| *gain == 0.0));
        assert_eq!(super::gains(&[-110.0; 10]), vec![0.0; 10]);
        assert!(super::gains(&[]).is_empty());
    }

    #[test]
    fn smoothing_keeps_constant_frames() {
        let frames = vec![[2.5; COEFFICIENTS]; 30];
        let near = |frame: &[f64; COEFFICIENTS]| frame.iter().all(|value| (value - 2.5).abs() < 1e-12);
        assert!(smooth(&frames, 4).iter().all(near));
        let mut jump = frames;
        jump[10..].fill([5.0; COEFFICIENTS]);
        let smoothed = smooth(&jump, 2);
        assert!(smoothed[9][0] > 2.5 && smoothed[9][0] < smoothed[10][0] && smoothed[10][0] < 5.0);
        assert_eq!(smooth(&jump, 0), jump);
    }
}
