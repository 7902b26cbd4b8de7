//! Cuts a recording into short pieces at its rests; each sample belongs to at most one piece.
//!
//! [`segment`] cuts at rests (module `rest`): points that are the quietest within 1.3 s on either side. The samples between two
//! cuts form a window. A voice activity detector (earshot, a small network whose weights are part of its library) scores every
//! 16 ms of a window, from a fresh state. The piece of the window extends from the first voice to the last; a window without voice
//! has no piece. [`cut`] extracts known pieces from a recording again. Samples outside all pieces are dropped and counted.
//!
//! Whether a point is a rest depends on the sound near it, not on its time in the recording. So an inserted, removed or exchanged
//! word of up to [`SegmentLimits::span`] affects the pieces of four consecutive windows at most:
//! `undertone_api::job::transcription::window` has the proof, and property tests here cut real sound. Code in this module must
//! not carry any state from one window to the next except the positions of the cuts.
//!
//! A window without a rest for 20 s is divided every 10 s. Its pieces have the length of its parts, which is more than a sound
//! that leaves may have, so they stay at the site.
//!
//! Recordings are read as streams: memory holds one window and one block, however long the recording
//! ([`SegmentLimits::most_held`]). This module does not use words.

pub mod cut;
mod rest;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use earshot::Detector;
use undertone_api::job::transcription::window::{CONTEXT, REACH, REST};

use self::rest::RestFinder;
use super::piece::{Piece, sample, seconds};
use undertone_worker_speech::audio::{AudioError, RATE};

/// Samples that the detector scores at once: 16 ms.
const FRAME: usize = 256;
/// Hysteresis: the voice continues until the score is this much below the threshold.
const LENIENCE: f32 = 0.15;

/// Half of the longest window that is not divided: 10 s.
const PART: u64 = 10 * RATE as u64;

/// Parameters of the segmentation. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentLimits {
    /// Time on either side of a cut within which no point is quieter, 0.5 to 8. Cuts are further apart than this.
    pub rest: f64,
    /// Silence kept on either side of the voice, 0 to 1: the detector is late for soft sounds.
    pub margin: f64,
    /// Detector score at which voice begins, 0.2 to 0.9; it continues until the score is 0.15 lower.
    pub threshold: f32,
}

impl Default for SegmentLimits {
    fn default() -> Self {
        Self { rest: REST, margin: 0.3, threshold: 0.5 }
    }
}

/// A limit out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field} = {value}: choose it between {least} and {most}")]
pub struct LimitError {
    /// The field of [`SegmentLimits`].
    pub field: &'static str,
    /// Its value.
    pub value: f64,
    /// Smallest permitted value.
    pub least: f64,
    /// Largest permitted value.
    pub most: f64,
}

impl SegmentLimits {
    /// Checks every field.
    ///
    /// # Errors
    /// [`LimitError`] for the first field out of range.
    pub fn check(&self) -> Result<(), LimitError> {
        let fields = [
            ("rest", self.rest, 0.5, 8.0),
            ("margin", self.margin, 0.0, 1.0),
            ("threshold", f64::from(self.threshold), 0.2, 0.9),
        ];
        // Sums of decimals have rounding errors.
        let wrong = fields.into_iter().find(|(_, value, least, most)| !(least - 1e-9..=most + 1e-9).contains(value));
        match wrong {
            Some((field, value, least, most)) => Err(LimitError { field, value, least, most }),
            None => Ok(()),
        }
    }

    /// Returns the longest span, in samples, whose replacement affects at most four consecutive windows: shorter than a rest by
    /// more than the context of a point.
    pub fn span(&self) -> u64 {
        sample(self.rest).saturating_sub(2 * sample(CONTEXT) + 1)
    }

    /// Returns the largest number of samples in memory during segmentation, besides the last block read.
    pub fn most_held(&self) -> usize {
        (2 * PART + sample(self.rest) + sample(CONTEXT)) as usize
    }
}

/// A piece and its sound.
#[derive(Clone, PartialEq)]
pub struct SpokenPiece {
    /// Position in the recording.
    pub piece: Piece,
    /// The samples of the piece: mono at 16 kHz, full scale = 1.
    pub audio: Vec<f32>,
}

/// Prints the position and the length, not the sound: recordings do not belong in logs.
impl fmt::Debug for SpokenPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpokenPiece({:?}, {} samples)", self.piece, self.audio.len())
    }
}

/// Statistics of one recording, in samples at 16 kHz.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentAccount {
    /// Samples of the recording.
    pub samples: u64,
    /// Samples in pieces.
    pub spoken: u64,
    /// Number of windows.
    pub windows: u32,
    /// Number of pieces.
    pub pieces: u32,
    /// Largest number of samples in memory at a time.
    pub most_held: usize,
}

impl SegmentAccount {
    /// Returns the number of samples outside all pieces.
    pub fn dropped(&self) -> u64 {
        self.samples - self.spoken
    }

    /// Returns the seconds in pieces.
    pub fn speech_seconds(&self) -> f64 {
        seconds(self.spoken)
    }
}

/// Cuts a recording, as [`Stream`](undertone_worker_speech::audio::Stream) reads it, on the grid.
///
/// # Errors
/// [`LimitError`] if a limit is out of range.
pub fn segment<B>(blocks: B, limits: SegmentLimits) -> Result<PieceSegmenter<B>, LimitError>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    limits.check()?;
    Ok(PieceSegmenter {
        blocks,
        limits,
        block: Vec::new(),
        used: 0,
        held: Vec::new(),
        base: 0,
        finder: RestFinder::new(sample(limits.rest), sample(REACH), sample(CONTEXT)),
        cuts: VecDeque::new(),
        is_divided: false,
        ended: false,
        account: SegmentAccount::default(),
    })
}

/// Iterator over the pieces of a recording, in order of time, at most one for each window. It ends after an error; the
/// earlier pieces must then be discarded.
pub struct PieceSegmenter<B> {
    blocks: B,
    limits: SegmentLimits,
    /// The last block read, and the number of its samples already used.
    block: Vec<f32>,
    used: usize,
    /// The samples after the last cut.
    held: Vec<f32>,
    /// Index of the first buffered sample: the last cut.
    base: u64,
    finder: RestFinder,
    /// The rests among the buffered samples.
    cuts: VecDeque<u64>,
    /// Whether the last cut divided a window that is too long.
    is_divided: bool,
    ended: bool,
    account: SegmentAccount,
}

/// The samples between two cuts.
struct SoundWindow {
    samples: Vec<f32>,
    /// Whether it is a part of a window that is too long.
    is_part: bool,
}

impl<B> PieceSegmenter<B>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    /// Returns the statistics so far; they are complete after the last piece.
    pub fn account(&self) -> SegmentAccount {
        self.account
    }

    /// Reads until a rest is known, or there is none in a window that is not too long, or the recording ends.
    fn fill(&mut self) -> Result<(), AudioError> {
        while self.cuts.is_empty() && self.held.len() < self.limits.most_held() {
            if let Some(sample) = self.block.get(self.used) {
                self.held.push(*sample);
                self.used += 1;
                self.cuts.extend(self.finder.push(*sample));
            } else if let Some(block) = self.blocks.next() {
                (self.block, self.used) = (block?, 0);
            } else {
                self.ended = true;
                break;
            }
        }
        self.account.most_held = self.account.most_held.max(self.held.len());
        Ok(())
    }

    /// Returns the next window; `None` at the end.
    fn window(&mut self) -> Result<Option<SoundWindow>, AudioError> {
        if !self.ended {
            self.fill()?;
        }
        if self.held.is_empty() {
            return Ok(None);
        }
        let rest = self.cuts.pop_front().map(|cut| cut - self.base);
        let last = self.ended.then_some(self.held.len() as u64);
        let (length, divides) = match rest.or(last) {
            Some(length) if length <= 2 * PART => (length, false),
            _ => (PART, true),
        };
        if divides {
            self.cuts.extend(rest.map(|length| self.base + length));
        }
        let remaining = self.held.split_off(length as usize);
        let samples = std::mem::replace(&mut self.held, remaining);
        let is_part = divides || self.is_divided;
        self.is_divided = divides;
        self.base += length;
        self.account.windows += 1;
        self.account.samples += length;
        Ok(Some(SoundWindow { samples, is_part }))
    }

    /// Returns the range of the voice in a window, with its margins.
    fn voice(&self, window: &[f32]) -> Option<Range<usize>> {
        // The detector is stateful, so each window gets its own.
        let mut detector = Detector::default_boxed();
        let (mut first, mut last, mut is_voice) = (None, 0, false);
        for (number, frame) in window.chunks(FRAME).enumerate() {
            // The detector takes whole frames; the last one is padded with silence.
            let mut samples = [0; FRAME];
            for (samples, sample) in samples.iter_mut().zip(frame) {
                *samples = (sample * 32_768.0).round() as i16;
            }
            let least = if is_voice { self.limits.threshold - LENIENCE } else { self.limits.threshold };
            is_voice = detector.predict_i16(&samples) >= least;
            if is_voice {
                first.get_or_insert(number * FRAME);
                last = number * FRAME + frame.len();
            }
        }
        let margin = sample(self.limits.margin) as usize;
        first.map(|first| first.saturating_sub(margin)..(last + margin).min(window.len()))
    }

    fn next_piece(&mut self) -> Result<Option<SpokenPiece>, AudioError> {
        loop {
            let start = self.base;
            let Some(SoundWindow { samples: mut window, is_part }) = self.window()? else { return Ok(None) };
            let Some(voice) = self.voice(&window) else { continue };
            let voice = if is_part { 0..window.len() } else { voice };
            let samples = start + voice.start as u64..start + voice.end as u64;
            window.truncate(voice.end);
            let audio = window.split_off(voice.start);
            let piece = Piece { id: self.account.pieces, samples };
            self.account.pieces += 1;
            self.account.spoken += audio.len() as u64;
            return Ok(Some(SpokenPiece { piece, audio }));
        }
    }
}

impl<B> Iterator for PieceSegmenter<B>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    type Item = Result<SpokenPiece, AudioError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_piece();
        if next.is_err() {
            self.ended = true;
            self.held.clear();
        }
        next.transpose()
    }
}

#[cfg(test)]
mod bound;
#[cfg(test)]
mod tests;
