//! What becomes of the cepstra of [`mfcc`](super::mfcc) before a model sees them: a mean is subtracted, and their slopes
//! over time are put beside them.
//!
//! What a feature depends on decides what can be protected. A mean over the utterance, and slopes within it, depend on
//! nothing but the utterance. A mean over all that a speaker said makes each of these recordings depend on the others: such
//! features keep speakers apart, not records, and a dataset of them says so ([`Normalization::keeps_records_apart`]). Where a
//! dataset has users, the mean is over what a speaker said for one user, so that users are kept apart as well.
//! Nothing here may look at more than one speaker.

use serde::{Deserialize, Serialize};

use super::mfcc::COEFFICIENTS;

/// Over what the mean is taken that is subtracted from every coefficient (cepstral mean normalization): what a microphone,
/// a room and, over all of a speaker, a voice add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalization {
    /// Nothing is subtracted.
    None,
    /// Over the utterance itself.
    #[default]
    Utterance,
    /// Over all utterances of its speaker that the dataset holds; where there are users, over those of the same user.
    Speaker,
}

impl Normalization {
    /// Whether the features of an utterance depend on that utterance alone.
    pub const fn keeps_records_apart(self) -> bool {
        !matches!(self, Self::Speaker)
    }

    /// In words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::None => "mean kept",
            Self::Utterance => "mean of the utterance subtracted",
            Self::Speaker => "mean of the speaker subtracted",
        }
    }
}

/// Which slopes over time stand beside the coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deltas {
    /// None: 13 numbers a frame.
    #[default]
    None,
    /// The slope: 26 numbers a frame.
    First,
    /// The slope and the slope of the slope: 39 numbers a frame.
    Second,
}

/// All of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Treatment {
    /// The mean that is subtracted.
    pub normalization: Normalization,
    /// The slopes that are added.
    pub deltas: Deltas,
}

impl Treatment {
    /// Numbers a frame: 13, 26 or 39.
    pub const fn inputs(self) -> usize {
        COEFFICIENTS * (1 + self.orders())
    }

    /// In words, for a dataset's description.
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

    /// The slopes of one utterance put beside its coefficients: `[frames, 13]` becomes `[frames, inputs]`, coefficients
    /// first, then first and second slopes.
    ///
    /// Regression over two frames to either side, `Σ n (c[t+n] − c[t−n]) / (2 Σ n²)` (Young et al., The HTK Book, 5.16);
    /// the second slopes are that filter applied twice. Frames before the first are the first, and after the last the last,
    /// of the coefficients for either order, as Kaldi's `add-deltas` has it (`feature-functions.cc`).
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

/// Frames to either side that a slope is taken over.
const WINDOW: usize = 2;

/// For the coefficients and both slopes, the weights of the frames around one.
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

/// Sums of coefficients, for a mean.
#[derive(Debug, Clone, Default)]
pub struct Mean {
    sums: [f64; COEFFICIENTS],
    frames: u64,
}

impl Mean {
    /// Takes in the coefficients of an utterance, `[frames, 13]`.
    pub fn add(&mut self, coefficients: &[f32]) {
        for frame in coefficients.chunks_exact(COEFFICIENTS) {
            self.frames += 1;
            for (sum, value) in self.sums.iter_mut().zip(frame) {
                *sum += f64::from(*value);
            }
        }
    }

    /// Subtracts the mean of all that was taken in.
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
    let mut mean = Mean::default();
    mean.add(coefficients);
    mean.subtract(coefficients);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Treatment = Treatment { normalization: Normalization::None, deltas: Deltas::Second };

    /// `[frames, 13]` of a curve, the same in every coefficient but for its sign.
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
