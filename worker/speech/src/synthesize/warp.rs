//! Transfers the phones of one reading to another of the same text, by dynamic time warping.
//!
//! Silence at both ends is removed, by energy in one reading and by label in the other. Between them, the algorithm is
//! that of Sakoe & Chiba 1978: the cheapest monotone path through the distances between the frames of both, symmetric,
//! with a slope between a third and three, so that no sound swallows its neighbours. Features and their differences are
//! normalized to zero mean and unit deviation in each reading, so that voices are comparable.

use std::ops::Range;

use super::phones::{SILENCE, TimedPhone};
use crate::audio::resample::RATE;
use crate::mfcc::{COEFFICIENTS, Mfcc, SHIFT, WINDOW};

/// A frame is silent if its energy is less than this fraction of the loudest frame's (-35 dB).
const SILENT: f32 = 3e-4;
/// Frames before and after for a difference.
const REACH: usize = 2;
/// Coefficients and their differences.
const WIDTH: usize = 2 * COEFFICIENTS;
/// Steps of the path, in frames of either reading: the slope is between 1/3 and 3.
const STEPS: [(usize, usize); 5] = [(1, 1), (1, 2), (2, 1), (1, 3), (3, 1)];

/// A frame's normalized features.
type Frame = [f32; WIDTH];

/// Returns the segments of `reference` (samples at 16 kHz) in the time of `target`, with the same order and phones.
pub(super) fn carry(reference: &[f32], segments: &[TimedPhone], target: &[f32]) -> Vec<TimedPhone> {
    let whole = target.len() as f64 / f64::from(RATE);
    let (labelled_speech, loud_speech) = (labelled_speech(segments, reference), loud_speech(target));
    let (from, to) = (features(reference, &labelled_speech), features(target, &loud_speech));
    let matched = path(&from, &to).unwrap_or_else(|| line(from.len(), to.len()));
    let end = |(number, segment): (usize, &TimedPhone)| {
        // The first frame of the target whose counterpart belongs to a later segment.
        let after = matched.iter().position(|frame| centre(labelled_speech.start + frame) > segment.end);
        let last = number + 1 == segments.len();
        let end = if last { whole } else { begin(loud_speech.start + after.unwrap_or(to.len())) };
        TimedPhone { phone: segment.phone, end: end.min(whole) }
    };
    segments.iter().enumerate().map(end).collect()
}

/// Returns the middle of a frame, seconds.
fn centre(frame: usize) -> f64 {
    (frame * SHIFT + WINDOW / 2) as f64 / f64::from(RATE)
}

/// Returns the boundary between a frame and the previous one, seconds.
fn begin(frame: usize) -> f64 {
    centre(frame) - 0.5 * SHIFT as f64 / f64::from(RATE)
}

/// Returns the frames between the silences at both ends, by label.
fn labelled_speech(segments: &[TimedPhone], samples: &[f32]) -> Range<usize> {
    let frames = crate::mfcc::frames(samples.len());
    let first =
        segments.iter().take_while(|segment| segment.phone == SILENCE).last().map_or(0.0, |silence| silence.end);
    let last = segments.iter().rfind(|segment| segment.phone != SILENCE).map_or(0.0, |segment| segment.end);
    let inside = |frame: &usize| (first..=last).contains(&centre(*frame));
    let start = (0..frames).find(inside).unwrap_or(0);
    start..(start..frames).rfind(inside).map_or(start, |frame| frame + 1)
}

/// Returns the frames between the silences at both ends, by energy.
fn loud_speech(samples: &[f32]) -> Range<usize> {
    let energies: Vec<f32> =
        samples.windows(WINDOW).step_by(SHIFT).map(|frame| frame.iter().map(|sample| sample * sample).sum()).collect();
    let least = SILENT * energies.iter().copied().fold(0.0, f32::max);
    let loud = |energy: &f32| *energy > least;
    let start = energies.iter().position(loud).unwrap_or(0);
    start..energies.iter().rposition(loud).map_or(start, |frame| frame + 1)
}

/// Returns coefficients and differences of a range of frames, each with zero mean and unit deviation over the range.
fn features(samples: &[f32], range: &Range<usize>) -> Vec<Frame> {
    let all = Mfcc::new().compute(samples);
    let frames: Vec<&[f32]> = all.chunks_exact(COEFFICIENTS).collect();
    let frame = |at: usize| -> Frame {
        let (before, after) = (frames[at.saturating_sub(REACH)], frames[(at + REACH).min(frames.len() - 1)]);
        std::array::from_fn(|k| {
            let c = k % COEFFICIENTS;
            if k < COEFFICIENTS { frames[at][c] } else { after[c] - before[c] }
        })
    };
    let mut frames: Vec<Frame> = range.clone().map(frame).collect();
    let count = frames.len().max(1) as f32;
    for k in 0..WIDTH {
        let mean = frames.iter().map(|frame| frame[k]).sum::<f32>() / count;
        let square = frames.iter().map(|frame| (frame[k] - mean).powi(2)).sum::<f32>() / count;
        let scale = 1.0 / square.sqrt().max(1e-6);
        for frame in &mut frames {
            frame[k] = (frame[k] - mean) * scale;
        }
    }
    frames
}

/// Returns, for every frame of `to`, the frame of `from` that the cheapest path pairs with it; never decreasing.
/// Returns `None` if one reading is more than three times as long as the other, because no path then has the slope.
fn path(from: &[Frame], to: &[Frame]) -> Option<Vec<usize>> {
    let (rows, columns) = (from.len(), to.len());
    if rows == 0 || columns == 0 {
        return None;
    }
    let distance = |i: usize, j: usize| from[i].iter().zip(&to[j]).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
    let distances: Vec<f32> = (0..rows * columns).map(|cell| distance(cell / columns, cell % columns)).collect();
    let at = |i: usize, j: usize| i * columns + j;
    // The cost of a step into (i, j): the cells on its way, where a diagonal move weighs two.
    let step = |i: usize, j: usize, (di, dj): (usize, usize)| {
        let straight: f32 = match (di, dj) {
            (1, _) => (0..dj - 1).map(|back| distances[at(i, j - back)]).sum(),
            _ => (0..di - 1).map(|back| distances[at(i - back, j)]).sum(),
        };
        straight + 2.0 * distances[at(i + 1 - di, j + 1 - dj)]
    };
    let mut costs = vec![f32::INFINITY; rows * columns];
    let mut steps = vec![(0, 0); rows * columns];
    costs[0] = distances[0];
    for i in 1..rows {
        for j in 1..columns {
            for (di, dj) in STEPS.into_iter().filter(|(di, dj)| *di <= i && *dj <= j) {
                let before = costs[at(i - di, j - dj)];
                if before.is_finite() {
                    let cost = before + step(i, j, (di, dj));
                    if cost < costs[at(i, j)] {
                        (costs[at(i, j)], steps[at(i, j)]) = (cost, (di, dj));
                    }
                }
            }
        }
    }
    let (mut i, mut j) = (rows - 1, columns - 1);
    if !costs[at(i, j)].is_finite() {
        return None;
    }
    let mut matched = vec![0; columns];
    while (i, j) != (0, 0) {
        let (di, dj) = steps[at(i, j)];
        // A step over several frames of `to` maps them to one frame of `from`; of several frames of `from`, the middle
        // one is used.
        matched[j + 1 - dj..=j].fill(i - (di - 1) / 2);
        (i, j) = (i - di, j - dj);
    }
    Some(matched)
}

/// Returns the straight path.
fn line(rows: usize, columns: usize) -> Vec<usize> {
    (0..columns).map(|j| j * rows / columns).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::engine::{REFERENCE, SpeechEngines};
    use super::super::text::WORDS;
    use super::super::voice::EngineVoice;
    use super::*;

    #[test]
    fn a_reading_is_carried_to_itself() {
        let sound = |i: i32| if (4_000..12_000).contains(&i) { ((i * i) as f32 * 1e-6).sin() } else { 0.0 };
        let samples: Vec<f32> = (0..16_000).map(sound).collect();
        let ends = [(0, 0.25), (3, 0.5), (4, 0.75), (0, 1.0)];
        let segments = ends.map(|(phone, end)| TimedPhone { phone, end });
        let carried = carry(&samples, &segments, &samples);
        for (carried, segment) in carried.iter().zip(&segments) {
            assert_eq!(carried.phone, segment.phone);
            assert!((carried.end - segment.end).abs() <= 0.02, "{carried:?} is not {segment:?}");
        }
    }

    #[test]
    fn a_path_follows_a_stretch() {
        let frame = |x: usize| std::array::from_fn(|k| (x * (k + 3)) as f32);
        let from: Vec<_> = (0..10).map(frame).collect();
        let to: Vec<_> = (0..20).map(|j| frame(j / 2)).collect();
        let twice: Vec<usize> = path(&from, &to).unwrap();
        assert!(twice.iter().enumerate().all(|(j, i)| i.abs_diff(j / 2) <= 1), "{twice:?}");
        assert_eq!(path(&to, &from).unwrap().len(), 10);
        assert_eq!(path(&from, &from).unwrap(), line(10, 10));
    }

    #[test]
    fn lengths_that_no_slope_joins_have_no_path() {
        let frames = |count: usize| vec![[0.0; WIDTH]; count];
        assert_eq!(path(&frames(10), &frames(40)), None);
        assert_eq!(path(&frames(40), &frames(10)), None);
        assert_eq!(path(&frames(0), &frames(10)), None);
        assert!(path(&frames(10), &frames(28)).is_some());
        assert_eq!(line(2, 4), [0, 0, 1, 1]);
    }

    #[test]
    fn silence_all_through_is_carried_somewhere() {
        let segments =
            [TimedPhone { phone: 0, end: 0.2 }, TimedPhone { phone: 3, end: 0.8 }, TimedPhone { phone: 0, end: 1.0 }];
        for target in [0, 100, 16_000] {
            let carried = carry(&vec![0.1; 16_000], &segments, &vec![0.0; target]);
            assert!(carried.is_sorted_by(|a, b| a.end <= b.end) && carried.len() == 3, "{carried:?}");
        }
    }

    /// The true boundaries are known, because the other voice is flite's too; the transferred ones are within a few
    /// frames.
    #[test]
    fn another_voice_is_aligned_as_its_own_engine_times_it() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("a.wav");
        let engines = SpeechEngines::default();
        let mut errors: Vec<f64> = Vec::new();
        for (voice, stretch) in [("slt", 1.2), ("awb", 0.9), ("rms", 1.0)] {
            let voice = EngineVoice::Flite { voice, stretch, pitch: 150.0 };
            for word in WORDS.iter().step_by(3) {
                let (reference, segments) = engines.speak(&REFERENCE, word, &scratch).unwrap();
                let (target, truth) = engines.speak(&voice, word, &scratch).unwrap();
                let carried = carry(&reference, &segments, &target);
                // Voices may differ in a few phones; those recordings are not compared.
                if carried.iter().map(|segment| segment.phone).eq(truth.iter().map(|segment| segment.phone)) {
                    errors.extend(carried.iter().zip(&truth).map(|(carried, truth)| (carried.end - truth.end).abs()));
                }
            }
        }
        errors.sort_by(f64::total_cmp);
        assert!(errors.len() > 200, "only {} boundaries compare", errors.len());
        let (median, most) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
        assert!(median < 0.02 && most < 0.1, "ends are off by {median} s, nine in ten by less than {most} s");
    }
}
