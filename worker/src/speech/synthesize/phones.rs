//! The phones that flite speaks, and the classes they make.

use serde_json::json;

use crate::speech::audio::RATE;
use crate::speech::mfcc::{SHIFT, WINDOW};

/// flite's American English; `pau` is silence.
pub const PHONES: [&str; 42] = [
    "pau", "aa", "ae", "ah", "ao", "aw", "ax", "axr", "ay", "b", "ch", "d", "dh", "eh", "er", "ey", "f", "g", "hh",
    "ih", "iy", "jh", "k", "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw", "v", "w", "y",
    "z", "zh",
];
/// Each phone is cut into so many states of equal length.
pub const STATES: usize = 3;
/// Number of classes: phones times states.
pub const CLASSES: usize = PHONES.len() * STATES;

/// Number of silence among the phones.
pub(super) const SILENCE: usize = 0;

/// One phone in time. It begins where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Segment {
    /// Number of the phone in [`PHONES`].
    pub(super) phone: usize,
    /// Where it ends, seconds.
    pub(super) end: f64,
}

/// Reads what `flite -psdur` prints: `pau:0.220 s:0.361 ...`, a phone and the time at which it ends.
pub(super) fn parse(said: &str) -> Result<Vec<Segment>, String> {
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
        Ok(Segment { phone, end })
    };
    let segments = said.split_whitespace().map(segment).collect::<Result<Vec<_>, _>>()?;
    if segments.is_empty() { Err("no phone".to_owned()) } else { Ok(segments) }
}

/// Appends the segments of a sound that begins at sample `offset`; silence that meets silence is one.
pub(super) fn append(segments: &mut Vec<Segment>, offset: usize, more: &[Segment]) {
    if more.first().is_some_and(|first| first.phone == SILENCE)
        && segments.last().is_some_and(|last| last.phone == SILENCE)
    {
        segments.pop();
    }
    let start = offset as f64 / f64::from(RATE);
    segments.extend(more.iter().map(|segment| Segment { phone: segment.phone, end: start + segment.end }));
}

/// The label at every one of `frames` feature frames, whose centres decide; `speed` is how much faster than the segments'
/// clock the sound is played. What lies beyond the last segment is its last state.
pub(super) fn labels(segments: &[Segment], frames: usize, speed: f64) -> Vec<u16> {
    let mut labels = Vec::with_capacity(frames);
    let mut current = 0;
    for frame in 0..frames {
        let at = (frame * SHIFT + WINDOW / 2) as f64 / f64::from(RATE) * speed;
        while current + 1 < segments.len() && segments[current].end <= at {
            current += 1;
        }
        let begin = if current == 0 { 0.0 } else { segments[current - 1].end };
        let Segment { phone, end } = segments[current];
        let share = if end > begin { (at - begin) / (end - begin) } else { 0.0 };
        let state = ((share * STATES as f64) as usize).min(STATES - 1);
        labels.push((phone * STATES + state) as u16);
    }
    labels
}

/// One line of alignments for `id`.
pub(super) fn line(id: &str, labels: &[u16]) -> String {
    let runs: Vec<(u16, usize)> = labels.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    format!("{}\n", json!({ "u": id, "frames": labels.len(), "runs": runs }))
}
