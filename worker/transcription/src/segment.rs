//! Cuts a recording into short pieces on a public grid; each sample belongs to at most one piece.
//!
//! [`segment`] cuts once in each zone of the grid, at the quietest point of that zone. The samples between two cuts form a
//! window. A voice activity detector (earshot, a small network whose weights are part of its library) scores every 16 ms of a
//! window, from a fresh state. The piece of the window extends from the first voice to the last; a window without voice has no
//! piece. [`cut`] extracts known pieces from a recording again. Samples outside all pieces are dropped and counted.
//!
//! So the content of [`SegmentLimits::span`] seconds affects the pieces of two consecutive windows and of no other:
//! `undertone_api::job::transcription::window` has the proof, and a property test here cuts real sound. Code in this module
//! must not carry any state from one window to the next except the position of the last cut.
//!
//! Recordings are read as streams: memory holds one window and one block, however long the recording
//! ([`SegmentLimits::most_held`]). This module does not use words.

pub mod cut;
mod quiet;

use std::fmt;
use std::ops::Range;

use earshot::Detector;
use undertone_api::job::transcription::window::{WINDOW, ZONE};

use self::quiet::quietest;
use super::piece::{Piece, sample, seconds};
use undertone_worker_speech::audio::AudioError;

/// Samples that the detector scores at once: 16 ms.
const FRAME: usize = 256;
/// Hysteresis: the voice continues until the score is this much below the threshold.
const LENIENCE: f32 = 0.15;

/// Parameters of the segmentation. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentLimits {
    /// Distance between zones, 1 to 30.
    pub window: f64,
    /// Length of a zone, 0.1 to `window`.
    pub zone: f64,
    /// Silence kept on either side of the voice, 0 to 1: the detector is late for soft sounds.
    pub margin: f64,
    /// Detector score at which voice begins, 0.2 to 0.9; it continues until the score is 0.15 lower.
    pub threshold: f32,
}

impl Default for SegmentLimits {
    fn default() -> Self {
        Self { window: WINDOW, zone: ZONE, margin: 0.3, threshold: 0.5 }
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
            ("window", self.window, 1.0, 30.0),
            ("zone", self.zone, 0.1, self.window),
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

    /// Returns the largest number of samples of a window, and so of a piece.
    pub fn most_samples(&self) -> usize {
        sample(self.window) as usize + 2 * self.half_zone() as usize
    }

    /// Returns the longest span, in samples, whose content affects at most two consecutive windows.
    pub fn span(&self) -> u64 {
        sample(self.window) - 2 * self.half_zone()
    }

    /// Returns the largest number of samples in memory during segmentation, besides the last block read.
    pub fn most_held(&self) -> usize {
        self.most_samples()
    }

    fn half_zone(&self) -> u64 {
        sample(self.zone / 2.0)
    }

    /// Returns the samples of the zone at the end of a window, from the beginning of the recording; windows count from 0.
    fn zone_after(&self, window: u64) -> Range<u64> {
        let middle = (window + 1) * sample(self.window);
        let half = self.half_zone();
        middle - half..middle + half
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
    /// The window that is not cut yet.
    held: Vec<f32>,
    /// Index of the first buffered sample: the last cut.
    base: u64,
    ended: bool,
    account: SegmentAccount,
}

impl<B> PieceSegmenter<B>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    /// Returns the statistics so far; they are complete after the last piece.
    pub fn account(&self) -> SegmentAccount {
        self.account
    }

    /// Reads until the sample `end` is buffered, or the recording ends.
    fn fill(&mut self, end: u64) -> Result<(), AudioError> {
        while !self.ended && self.base + (self.held.len() as u64) < end {
            let missing = (end - self.base) as usize - self.held.len();
            let rest = &self.block[self.used..];
            let copied = rest.len().min(missing);
            self.held.extend_from_slice(&rest[..copied]);
            self.used += copied;
            if copied == 0 {
                match self.blocks.next() {
                    Some(block) => (self.block, self.used) = (block?, 0),
                    None => self.ended = true,
                }
            }
        }
        self.account.most_held = self.account.most_held.max(self.held.len());
        Ok(())
    }

    /// Returns the samples of the next window; `None` at the end. The cut at its end depends on the samples of its zone only.
    fn window(&mut self) -> Result<Option<Vec<f32>>, AudioError> {
        let zone = self.limits.zone_after(self.account.windows.into());
        self.fill(zone.end)?;
        if self.held.is_empty() {
            return Ok(None);
        }
        let buffered_end = self.base + self.held.len() as u64;
        let end = if buffered_end < zone.end {
            // The recording ends before this zone does, so there is no cut in it.
            buffered_end
        } else {
            let sound = &self.held[(zone.start - self.base) as usize..];
            zone.start + quietest(sound, 0..sound.len()).0 as u64
        };
        let rest = self.held.split_off((end - self.base) as usize);
        let window = std::mem::replace(&mut self.held, rest);
        self.base = end;
        self.account.windows += 1;
        self.account.samples += window.len() as u64;
        Ok(Some(window))
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
            let Some(mut window) = self.window()? else { return Ok(None) };
            let Some(voice) = self.voice(&window) else { continue };
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
