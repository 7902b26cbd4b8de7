//! The phones of flite and their classes.

use serde_json::json;

use crate::audio::resample::RATE;
use crate::mfcc::{SHIFT, WINDOW};

/// The phones of flite's American English; `pau` is silence.
pub const PHONES: [&str; 42] = [
    "pau", "aa", "ae", "ah", "ao", "aw", "ax", "axr", "ay", "b", "ch", "d", "dh", "eh", "er", "ey", "f", "g", "hh",
    "ih", "iy", "jh", "k", "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw", "v", "w", "y",
    "z", "zh",
];
/// Number of states of equal length per phone.
pub const STATES: usize = 3;
/// Number of classes: phones times states.
pub const CLASSES: usize = PHONES.len() * STATES;

/// Index of silence among the phones.
pub(super) const SILENCE: usize = 0;

/// A phone with its end time. It begins where the previous one ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimedPhone {
    /// Index of the phone in [`PHONES`].
    pub(super) phone: usize,
    /// End time, seconds.
    pub(super) end: f64,
}

/// Parses the output of `flite -psdur`: `pau:0.220 s:0.361 ...`, phones with their end times.
pub(super) fn parse(said: &str) -> Result<Vec<TimedPhone>, String> {
    let mut before = 0.0;
    let segment = |word: &str| {
        let (phone, end) = word.split_once(':').ok_or_else(|| format!("{word:?} is not a phone and a time"))?;
        let phone =
            PHONES.iter().position(|known| *known == phone).ok_or_else(|| format!("unknown phone {phone:?}"))?;
        let end: f64 = end.parse().map_err(|_| format!("{word:?} is not a phone and a time"))?;
        if !(end >= before && end.is_finite()) {
            return Err(format!("{word:?} ends before it begins"));
        }
        before = end;
        Ok(TimedPhone { phone, end })
    };
    let segments = said.split_whitespace().map(segment).collect::<Result<Vec<_>, _>>()?;
    if segments.is_empty() { Err("no phone".to_owned()) } else { Ok(segments) }
}

/// Appends the segments of audio that begins at sample `offset`; adjacent silences become one.
pub(super) fn append(segments: &mut Vec<TimedPhone>, offset: usize, more: &[TimedPhone]) {
    if more.first().is_some_and(|first| first.phone == SILENCE)
        && segments.last().is_some_and(|last| last.phone == SILENCE)
    {
        segments.pop();
    }
    let start = offset as f64 / f64::from(RATE);
    segments.extend(more.iter().map(|segment| TimedPhone { phone: segment.phone, end: start + segment.end }));
}

/// Returns the label of each of `frames` feature frames, by the frame's centre. `speed` is the playback speed relative
/// to the segments' times. Frames after the last segment have its last state.
pub(super) fn labels(segments: &[TimedPhone], frames: usize, speed: f64) -> Vec<u16> {
    let mut labels = Vec::with_capacity(frames);
    let mut current = 0;
    for frame in 0..frames {
        let at = (frame * SHIFT + WINDOW / 2) as f64 / f64::from(RATE) * speed;
        while current + 1 < segments.len() && segments[current].end <= at {
            current += 1;
        }
        let begin = if current == 0 { 0.0 } else { segments[current - 1].end };
        let TimedPhone { phone, end } = segments[current];
        let share = if end > begin { (at - begin) / (end - begin) } else { 0.0 };
        let state = ((share * STATES as f64) as usize).min(STATES - 1);
        labels.push((phone * STATES + state) as u16);
    }
    labels
}

/// Returns one line of alignments for `id`.
pub(super) fn line(id: &str, labels: &[u16]) -> String {
    let runs: Vec<(u16, usize)> = labels.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    format!("{}\n", json!({ "u": id, "frames": labels.len(), "runs": runs }))
}
