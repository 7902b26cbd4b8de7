//! What an adversary measures of a sound: spectrum, pitch, loudness, tilt, and where it is quiet.

use undertone_worker::speech::audio::RATE;
use undertone_worker::speech::mfcc::{COEFFICIENTS, Mfcc, SHIFT};

/// Every how many-th sample the pitch is looked for in: 4 kHz.
const SPARSE: usize = 4;
/// Samples of a frame of the pitch at that rate: 40 ms, every 20 ms.
const PITCH_FRAME: usize = 160;
/// Lags from 400 to 60 Hz at that rate.
const LAGS: std::ops::Range<usize> = 10..67;
/// Autocorrelation from which a frame is voiced.
const VOICED: f32 = 0.5;

/// Values of [`voice`].
pub(super) const VOICE: usize = 3 * COEFFICIENTS + 3;
/// Values of [`sound`].
pub(super) const SOUND: usize = VOICE + 7;

/// Who speaks: means and deviations of 13 MFCC, deviations of their differences; mean, deviation and share of the voiced pitch.
pub(super) fn voice(mfcc: &mut Mfcc, samples: &[f32]) -> Vec<f32> {
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
    let (pitches, looked) = pitches(samples);
    let (mean, deviation) = moments(pitches.iter().copied());
    values.extend([mean, deviation, pitches.len() as f32 / looked.max(1) as f32]);
    values
}

/// What a sound is: as [`voice`], and length, loudness, loudest, floor, silence before and after, tilt.
pub(super) fn sound(mfcc: &mut Mfcc, samples: &[f32]) -> Vec<f32> {
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
    // The share of what changes from sample to sample: high where the spectrum is flat.
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

/// The logarithm of the pitch of every voiced frame, and how many frames there are.
fn pitches(samples: &[f32]) -> (Vec<f32>, usize) {
    let sparse: Vec<f32> =
        samples.chunks_exact(SPARSE).map(|chunk| chunk.iter().sum::<f32>() / SPARSE as f32).collect();
    let (mut pitches, mut looked) = (Vec::new(), 0);
    for frame in sparse.windows(PITCH_FRAME + LAGS.end).step_by(PITCH_FRAME / 2) {
        looked += 1;
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
    (pitches, looked)
}

fn product(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Mean and deviation; zeros of nothing.
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
