//! Turns the cepstra of [`mfcc`](super::mfcc) into model inputs: subtracts a mean and appends slopes over time.
//!
//! The dependencies of a feature determine which units can be protected. A mean over the utterance, and slopes within
//! it, depend on the utterance alone. A mean over all recordings of a speaker makes each of them depend on the others.
//! Such features separate speakers, not records, and a dataset with them states that
//! ([`Normalization::keeps_records_apart`]). Where a dataset has users, the mean is over a speaker's recordings for one
//! user, so users are separate as well. Code in this module may never read more than one speaker.

use serde::{Deserialize, Serialize};

use super::mfcc::COEFFICIENTS;

/// The range of the mean that is subtracted from every coefficient (cepstral mean normalization). The mean reflects the
/// microphone, the room and, over all recordings of a speaker, the voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalization {
    /// No mean is subtracted.
    None,
    /// The mean over the utterance itself.
    #[default]
    Utterance,
    /// The mean over all utterances of the speaker in the dataset; with users, over those of the same user.
    Speaker,
}

impl Normalization {
    /// Returns true if the features of an utterance depend on that utterance alone.
    pub const fn keeps_records_apart(self) -> bool {
        !matches!(self, Self::Speaker)
    }

    /// Returns the normalization as text.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::None => "mean kept",
            Self::Utterance => "mean of the utterance subtracted",
            Self::Speaker => "mean of the speaker subtracted",
        }
    }
}

/// The slopes over time that follow the coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deltas {
    /// No slopes: 13 numbers per frame.
    #[default]
    None,
    /// First-order slopes: 26 numbers per frame.
    First,
    /// First- and second-order slopes: 39 numbers per frame.
    Second,
}

/// The complete feature treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Treatment {
    /// The mean to subtract.
    pub normalization: Normalization,
    /// The slopes to append.
    pub deltas: Deltas,
}

impl Treatment {
    /// Returns the count of numbers per frame: 13, 26 or 39.
    pub const fn inputs(self) -> usize {
        COEFFICIENTS * (1 + self.orders())
    }

    /// Returns the treatment as text, for a dataset's description.
    pub fn describe(self) -> String {
        let mean = self.normalization.describe();
        match self.deltas {
            Deltas::None => mean.to_owned(),
            Deltas::First => format!("{mean}, deltas over 2 frames to either side"),
            Deltas::Second => format!("{mean}, deltas and delta-deltas over 2 frames to either side"),
        }
    }

    const fn orders(self) -> usize {
        match self.deltas {
            Deltas::None => 0,
            Deltas::First => 1,
            Deltas::Second => 2,
        }
    }

    /// Appends the slopes of one utterance to its coefficients: `[frames, 13]` becomes `[frames, inputs]`, with the
    /// coefficients first, then first and second slopes.
    ///
    /// The slope is a regression over two frames on either side, `Σ n (c[t+n] − c[t−n]) / (2 Σ n²)` (Young et al., The
    /// HTK Book, 5.16); the second slopes are that filter applied twice. For both orders, the coefficients of the first
    /// and last frame are repeated beyond the edges, as in Kaldi's `add-deltas` (`feature-functions.cc`).
    pub fn with_deltas(self, coefficients: &[f32]) -> Vec<f32> {
        let scales = &scales()[..=self.orders()];
        let frames = coefficients.len() / COEFFICIENTS;
        let mut features = Vec::with_capacity(frames * self.inputs());
        for t in 0..frames {
            for scales in scales {
                let reach = scales.len() / 2;
                for c in 0..COEFFICIENTS {
                    let at = |k: usize| (t + k).saturating_sub(reach).min(frames - 1);
                    let term = |(k, scale): (usize, &f64)| scale * f64::from(coefficients[at(k) * COEFFICIENTS + c]);
                    features.push(scales.iter().enumerate().map(term).sum::<f64>() as f32);
                }
            }
        }
        features
    }
}

/// Frames on either side for a slope.
const WINDOW: usize = 2;

/// Returns the weights of the frames around one, for the coefficients and both slopes.
fn scales() -> [Vec<f64>; 3] {
    let slope: Vec<f64> = (0..=2 * WINDOW).map(|k| (k as f64 - WINDOW as f64) / 10.0).collect();
    let mut twice = vec![0.0; 4 * WINDOW + 1];
    for (i, a) in slope.iter().enumerate() {
        for (j, b) in slope.iter().enumerate() {
            twice[i + j] += a * b;
        }
    }
    [vec![1.0], slope, twice]
}

/// Sums of coefficients for a mean.
#[derive(Debug, Clone, Default)]
pub struct MeanSum {
    sums: [f64; COEFFICIENTS],
    frames: u64,
}

impl MeanSum {
    /// Adds the coefficients of an utterance, `[frames, 13]`.
    pub fn add(&mut self, coefficients: &[f32]) {
        for frame in coefficients.chunks_exact(COEFFICIENTS) {
            self.frames += 1;
            for (sum, value) in self.sums.iter_mut().zip(frame) {
                *sum += f64::from(*value);
            }
        }
    }

    /// Subtracts the mean of all added coefficients.
    pub fn subtract(&self, coefficients: &mut [f32]) {
        let frames = self.frames.max(1) as f64;
        for frame in coefficients.chunks_exact_mut(COEFFICIENTS) {
            for (value, sum) in frame.iter_mut().zip(&self.sums) {
                *value = (f64::from(*value) - sum / frames) as f32;
            }
        }
    }
}

/// Subtracts from each coefficient its mean over this utterance, `[frames, 13]`.
pub fn subtract_mean(coefficients: &mut [f32]) {
    let mut mean = MeanSum::default();
    mean.add(coefficients);
    mean.subtract(coefficients);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Treatment = Treatment { normalization: Normalization::None, deltas: Deltas::Second };

    /// Returns `[frames, 13]` of a curve, the same in every coefficient except for its sign.
    fn curve(frames: usize, of: impl Fn(f32) -> f32) -> Vec<f32> {
        let row = |t: usize| {
            (0..COEFFICIENTS).map(|c| if c % 2 == 0 { 1.0 } else { -1.0 }).map(|s| s * of(t as f32)).collect::<Vec<_>>()
        };
        (0..frames).flat_map(row).collect()
    }

    fn column(features: &[f32], c: usize) -> Vec<f32> {
        features.chunks_exact(ALL.inputs()).map(|frame| frame[c]).collect()
    }

    fn close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} is not {expected:?}");
    }

    #[test]
    fn slopes_of_a_parabola_are_its_derivatives_away_from_the_edges() {
        let features = ALL.with_deltas(&curve(12, |t| t * t));
        close(&column(&features, 0)[..3], &[0.0, 1.0, 4.0]);
        close(&column(&features, 13)[2..10], &[4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]);
        close(&column(&features, 27)[4..8], &[-2.0; 4]);
    }

    #[test]
    fn at_the_edges_the_first_and_last_frames_are_repeated() {
        let features = ALL.with_deltas(&curve(5, |t| t));
        // (1 (c[1] - c[0]) + 2 (c[2] - c[0])) / 10, and so on.
        close(&column(&features, 13), &[0.5, 0.8, 1.0, 0.8, 0.5]);
        // 0.04, 0.04, 0.01, -0.04, -0.1, -0.04, 0.01, 0.04, 0.04 over 0, 0, 0, 0, 0, 1, 2, 3, 4; then 0, 0, 0, 0, 1, 2, 3, 4, 4.
        close(&column(&features, 26), &[0.26, 0.17, 0.0, -0.17, -0.26]);
        let one = ALL.with_deltas(&curve(1, |_| 7.0));
        close(&one[..COEFFICIENTS], &curve(1, |_| 7.0));
        close(&one[COEFFICIENTS..], &[0.0; 2 * COEFFICIENTS]);
    }

    #[test]
    fn a_mean_changes_no_slope() {
        let mut coefficients = curve(40, |t| (t * 0.7).sin() * 10.0 + 3.0);
        let before = ALL.with_deltas(&coefficients);
        subtract_mean(&mut coefficients);
        let after = ALL.with_deltas(&coefficients);
        for c in COEFFICIENTS..ALL.inputs() {
            close(&column(&after, c), &column(&before, c));
        }
        assert!(column(&after, 0).iter().sum::<f32>().abs() < 1e-3);
        assert!(column(&before, 0).iter().sum::<f32>() > 100.0);
    }

    #[test]
    fn a_frame_has_13_26_or_39_numbers() {
        let inputs = |deltas| Treatment { deltas, ..Treatment::default() }.inputs();
        assert_eq!([Deltas::None, Deltas::First, Deltas::Second].map(inputs), [13, 26, 39]);
        let plain = curve(3, |t| t);
        assert_eq!(Treatment::default().with_deltas(&plain), plain);
    }

    #[test]
    fn a_subtracted_mean_is_gone_and_the_rest_is_kept() {
        let mut features: Vec<f32> = (0..3 * COEFFICIENTS).map(|i| (i * i) as f32).collect();
        let before = features.clone();
        subtract_mean(&mut features);
        for k in 0..COEFFICIENTS {
            let column: Vec<f32> = features.iter().skip(k).step_by(COEFFICIENTS).copied().collect();
            assert!(column.iter().sum::<f32>().abs() < 1e-3);
            let step = before[k + COEFFICIENTS] - before[k];
            assert!((column[1] - column[0] - step).abs() < 1e-3);
        }
        subtract_mean(&mut []);
    }
}
