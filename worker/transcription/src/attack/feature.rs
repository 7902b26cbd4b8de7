//! The adversary's features of a sound: spectrum, pitch, loudness, tilt, silence, and recognized words.
//!
//! They are raw values of one sound; the [classifier](super::classifier) standardizes them. Words enter by their number, length and
//! share of the vocabulary, never by identity.

use crate::piece::Recognition;
use crate::vocabulary::Vocabulary;
use undertone_worker_speech::audio::RATE;
use undertone_worker_speech::mfcc::{COEFFICIENTS, Mfcc, SHIFT};

/// Decimation factor for pitch detection: 4 kHz.
const SPARSE: usize = 4;
/// Samples of a frame of the pitch at that rate: 40 ms, every 20 ms.
const PITCH_FRAME: usize = 160;
/// Lags from 400 to 60 Hz at that rate.
const LAGS: std::ops::Range<usize> = 10..67;
/// Autocorrelation above which a frame is voiced.
const VOICED: f32 = 0.5;

/// Number of values of [`voice`].
pub const VOICE: usize = 3 * COEFFICIENTS + 3;
/// Number of values of [`sound`].
pub const SOUND: usize = VOICE + 7;
/// Distances of frames, 10 ms each, whose similarity [`trajectory`] measures.
const DISTANCES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Quantiles of the steps from frame to frame, percent.
const QUANTILES: [usize; 6] = [10, 50, 75, 90, 97, 100];
/// Number of values of [`trajectory`].
pub const TRAJECTORY: usize = (DISTANCES.len() + 2) * COEFFICIENTS + QUANTILES.len();
/// Number of values of [`words`].
pub const WORDS: usize = 5;

/// Returns features of the speaker, [`VOICE`] values of mono samples at 16 kHz: means and deviations of 13 MFCC, deviations of their differences; mean, deviation and share of the voiced pitch.
pub fn voice(mfcc: &mut Mfcc, samples: &[f32]) -> Vec<f32> {
    let frames = mfcc.compute(samples);
    let rows: Vec<&[f32]> = frames.chunks_exact(COEFFICIENTS).collect();
    let mut values = Vec::with_capacity(VOICE);
    let column = |at: usize| rows.iter().map(move |row| row[at]);
    for at in 0..COEFFICIENTS {
        let (mean, deviation) = moments(column(at));
        values.extend([mean, deviation]);
    }
    for at in 0..COEFFICIENTS {
        let differences = rows.array_windows().map(|[one, next]| next[at] - one[at]);
        values.push(moments(differences).1);
    }
    let (pitches, frame_count) = pitches(samples);
    let (mean, deviation) = moments(pitches.iter().copied());
    values.extend([mean, deviation, pitches.len() as f32 / frame_count.max(1) as f32]);
    values
}

/// Returns features of a sound, [`SOUND`] values of mono samples at 16 kHz: those of [`voice`], and length, loudness, loudest, floor, silence before and after, tilt.
pub fn sound(mfcc: &mut Mfcc, samples: &[f32]) -> Vec<f32> {
    let mut values = voice(mfcc, samples);
    let level = |part: &[f32]| {
        let power = part.iter().map(|sample| sample * sample).sum::<f32>() / part.len().max(1) as f32;
        10.0 * (power + 1e-10).log10()
    };
    let levels: Vec<f32> = samples.chunks(SHIFT).map(level).collect();
    let mut sorted = levels.clone();
    sorted.sort_by(f32::total_cmp);
    let quantile = |part: usize| sorted.get(sorted.len() * part / 100).copied().unwrap_or(-100.0);
    let loud = |level: &&f32| **level > quantile(99) - 35.0;
    let quiet = |levels: &mut dyn Iterator<Item = &f32>| levels.take_while(|level| !loud(level)).count() as f32;
    // Relative power of the differences between samples: high where the spectrum is flat.
    let differences: f32 = samples.array_windows().map(|[one, next]| (next - one).powi(2)).sum();
    let power: f32 = samples.iter().map(|sample| sample * sample).sum();
    values.extend([
        samples.len() as f32 / RATE as f32,
        level(samples),
        quantile(95),
        quantile(10),
        quiet(&mut levels.iter()),
        quiet(&mut levels.iter().rev()),
        (differences / (power + 1e-10) + 1e-6).ln(),
    ]);
    values
}

/// Returns features of how a sound moves, [`TRAJECTORY`] values of mono samples at 16 kHz: the autocorrelation of each MFCC over 10 to
/// 320 ms, its skewness and kurtosis, and quantiles of the steps between frames. Joined sounds have larger steps, and engines smoother
/// paths.
pub fn trajectory(mfcc: &mut Mfcc, samples: &[f32]) -> Vec<f32> {
    let frames = mfcc.compute(samples);
    let rows: Vec<&[f32]> = frames.chunks_exact(COEFFICIENTS).collect();
    let mut values = Vec::with_capacity(TRAJECTORY);
    for at in 0..COEFFICIENTS {
        let (mean, deviation) = moments(rows.iter().map(|row| row[at]));
        let path: Vec<f32> = rows.iter().map(|row| (row[at] - mean) / deviation.max(1e-4)).collect();
        let count = path.len().max(1) as f32;
        for distance in DISTANCES {
            let later = path.get(distance..).unwrap_or_default();
            values.push(product(later, &path[..later.len()]) / count);
        }
        values.push(path.iter().map(|value| value.powi(3)).sum::<f32>() / count);
        values.push(path.iter().map(|value| value.powi(4)).sum::<f32>() / count);
    }
    let step =
        |one: &[f32], next: &[f32]| one.iter().zip(next).skip(1).map(|(a, b)| (b - a).powi(2)).sum::<f32>().sqrt();
    let mut steps: Vec<f32> = rows.array_windows().map(|[one, next]| step(one, next)).collect();
    steps.sort_by(f32::total_cmp);
    let quantile = |percent: usize| steps.get(steps.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0);
    values.extend(QUANTILES.map(quantile));
    values
}

/// Returns features of the words recognized in a sound of `seconds`: words, words a second, letters a word, share of the vocabulary,
/// share of the sound that words cover.
pub fn words(vocabulary: &Vocabulary, recognition: &Recognition, seconds: f64) -> [f32; WORDS] {
    let count = recognition.words.len() as f64;
    let letters: usize = recognition.words.iter().map(|word| word.text.len()).sum();
    let listed = recognition.words.iter().filter(|word| vocabulary.number(&word.text).is_some()).count();
    let covered: f64 = recognition.words.iter().map(|word| word.end - word.start).sum();
    let (words, time) = (count.max(1.0), seconds.max(0.01));
    [count, count / time, letters as f64 / words, listed as f64 / words, covered / time].map(|value| value as f32)
}

/// Returns the logarithm of the pitch of every voiced frame, and the number of frames.
fn pitches(samples: &[f32]) -> (Vec<f32>, usize) {
    let sparse: Vec<f32> =
        samples.chunks_exact(SPARSE).map(|chunk| chunk.iter().sum::<f32>() / SPARSE as f32).collect();
    let mut pitches = Vec::new();
    let mut frame_count = 0;
    for frame in sparse.windows(PITCH_FRAME + LAGS.end).step_by(PITCH_FRAME / 2) {
        frame_count += 1;
        let base = &frame[..PITCH_FRAME];
        let energy = product(base, base);
        let alike = |lag: usize| {
            let later = &frame[lag..lag + PITCH_FRAME];
            product(base, later) / (energy * product(later, later) + 1e-12).sqrt()
        };
        let best = LAGS.map(|lag| (lag, alike(lag))).max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((lag, alike)) = best
            && alike > VOICED
            && energy > 1e-6
        {
            pitches.push((RATE as f32 / (SPARSE * lag) as f32).ln());
        }
    }
    (pitches, frame_count)
}

fn product(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Returns mean and deviation; zeros for no values.
fn moments(values: impl Iterator<Item = f32>) -> (f32, f32) {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    let mean: f32 = sum / f32::max(count, 1.0);
    (mean, f32::max(squares / f32::max(count, 1.0) - mean * mean, 0.0).sqrt())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test makes is good, or the test fails")]

    use std::f32::consts::TAU;

    use super::{QUANTILES, RATE, SOUND, TRAJECTORY, VOICE, WORDS, sound, trajectory, voice, words};
    use crate::piece::{Recognition, TimedWord};
    use crate::vocabulary::language::StemmingLanguage;
    use crate::vocabulary::{WordList, public};
    use undertone_worker_speech::mfcc::Mfcc;

    fn tone(hertz: f32, samples: usize) -> Vec<f32> {
        (0..samples).map(|at| 0.3 * (TAU * hertz * at as f32 / RATE as f32).sin()).collect()
    }

    #[test]
    fn features_have_fixed_length_and_are_finite() {
        let mut mfcc = Mfcc::new();
        for samples in [vec![], vec![0.0; 1], tone(200.0, 399), vec![0.0; 16_000], tone(100.0, 16_000)] {
            let (who, what) = (voice(&mut mfcc, &samples), sound(&mut mfcc, &samples));
            let path = trajectory(&mut mfcc, &samples);
            assert_eq!((who.len(), what.len(), path.len()), (VOICE, SOUND, TRAJECTORY));
            assert!(what.iter().chain(&path).all(|value| value.is_finite()), "{} samples", samples.len());
        }
    }

    #[test]
    fn join_of_two_sounds_has_a_larger_step() {
        let largest = |samples: &[f32]| *trajectory(&mut Mfcc::new(), samples).last().unwrap();
        let joined = [tone(300.0, 8_000), tone(2_000.0, 8_000)].concat();
        assert_eq!(QUANTILES.last(), Some(&100));
        assert!(largest(&joined) > 2.0 * largest(&tone(300.0, 16_000)), "{}", largest(&joined));
    }

    #[test]
    fn pitch_of_a_tone_is_its_frequency() {
        // For these, no multiple of the period is among the lags.
        for hertz in [65.0, 80.0, 100.0] {
            let values = voice(&mut Mfcc::new(), &tone(hertz, 16_000));
            let [.., mean, _, voiced] = values[..] else { panic!("values") };
            assert!((mean.exp() / hertz - 1.0).abs() < 0.05 && voiced > 0.9, "{hertz} Hz: {}, {voiced}", mean.exp());
        }
    }

    #[test]
    fn word_features_are_number_length_and_vocabulary_share() {
        let vocabulary = public(StemmingLanguage::new("en").unwrap(), &WordList::parse("window").unwrap()).unwrap();
        let word = |text: &str, start, end| TimedWord { text: text.to_owned(), start, end, confidence: None };
        let recognition = Recognition { words: vec![word("windows", 0.0, 0.5), word("are", 0.5, 1.0)] };
        assert_eq!(words(&vocabulary, &recognition, 2.0).to_vec(), [2.0, 1.0, 5.0, 0.5, 0.5]);
        assert_eq!(words(&vocabulary, &Recognition::default(), 0.0).to_vec(), [0.0; WORDS]);
    }
}
