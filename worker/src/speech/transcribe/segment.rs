//! Cuts a recording into short pieces on a public grid, each sample at most once.
//!
//! [`segment`] cuts once in each zone of the grid, at the quietest place of that zone. Between two cuts lies a window. A detector of
//! voice (earshot, a small network whose weights are part of its library) judges every 16 ms of a window, from a fresh state.
//! The piece of the window reaches from the first voice to the last; a window without voice has none. [`cut`] takes known
//! pieces out of a recording a second time. What is in no piece is dropped and accounted for.
//!
//! So whatever is said in [`Limits::span`] seconds changes the pieces of two consecutive windows and of no other:
//! `undertone_api::job::transcription::window` has the proof, and a property test here cuts real sound. Nothing here may
//! carry anything from one window to the next but where the last cut is.
//!
//! Recordings are streams here: what is in memory is a window and a block, however long the recording
//! ([`Limits::most_held`]). Nothing here knows words.

pub mod cut;
mod quiet;

use std::fmt;
use std::ops::Range;

use earshot::Detector;
use undertone_api::job::transcription::window::{WINDOW, ZONE};

use self::quiet::quietest;
use super::piece::{Piece, sample, seconds};
use crate::speech::audio::AudioError;

/// Samples that the detector judges at once: 16 ms.
const FRAME: usize = 256;
/// How much lower a score may be for voice to go on than for it to begin.
const LENIENCE: f32 = 0.15;

/// How recordings are cut. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The distance of two zones, 1 to 30.
    pub window: f64,
    /// The length of a zone, 0.1 to `window`.
    pub zone: f64,
    /// Silence kept on either side of voice, 0 to 1: the detector is late for soft sounds.
    pub margin: f64,
    /// Score of the detector at which voice begins, 0.2 to 0.9; it goes on until the score is 0.15 less.
    pub threshold: f32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window: WINDOW, zone: ZONE, margin: 0.3, threshold: 0.5 }
    }
}

/// A limit that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field} = {value}: choose it between {least} and {most}")]
pub struct LimitError {
    /// The field of [`Limits`].
    pub field: &'static str,
    /// Its value.
    pub value: f64,
    /// The least it can be.
    pub least: f64,
    /// The most it can be.
    pub most: f64,
}

impl Limits {
    /// Checks every field.
    ///
    /// # Errors
    /// [`LimitError`] for the first that cannot be.
    pub fn check(&self) -> Result<(), LimitError> {
        let fields = [
            ("window", self.window, 1.0, 30.0),
            ("zone", self.zone, 0.1, self.window),
            ("margin", self.margin, 0.0, 1.0),
            ("threshold", f64::from(self.threshold), 0.2, 0.9),
        ];
        // Sums of decimals are off by a rounding.
        let wrong = fields.into_iter().find(|(_, value, least, most)| !(least - 1e-9..=most + 1e-9).contains(value));
        match wrong {
            Some((field, value, least, most)) => Err(LimitError { field, value, least, most }),
            None => Ok(()),
        }
    }

    /// The most samples of a window, and so of a piece.
    pub fn most_samples(&self) -> usize {
        sample(self.window) as usize + 2 * self.half_zone() as usize
    }

    /// The longest span whose content changes no more than two consecutive windows, samples.
    pub fn span(&self) -> u64 {
        sample(self.window) - 2 * self.half_zone()
    }

    /// The most samples of a recording that are held while it is cut, besides the block that was read last.
    pub fn most_held(&self) -> usize {
        self.most_samples()
    }

    fn half_zone(&self) -> u64 {
        sample(self.zone / 2.0)
    }

    /// The samples of the zone at the end of a window, counted from the beginning of the recording; windows count from 0.
    fn zone_after(&self, window: u64) -> Range<u64> {
        let (middle, half) = ((window + 1) * sample(self.window), self.half_zone());
        middle - half..middle + half
    }
}

/// A piece and its sound.
#[derive(Clone, PartialEq)]
pub struct Spoken {
    /// Where it lies.
    pub piece: Piece,
    /// As many samples as the piece has: mono at 16 kHz, full scale = 1.
    pub audio: Vec<f32>,
}

/// Says where it lies and not how it sounds: recordings do not belong in logs.
impl fmt::Debug for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spoken({:?}, {} samples)", self.piece, self.audio.len())
    }
}

/// What became of a recording, in samples at 16 kHz.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Of the recording.
    pub samples: u64,
    /// In pieces.
    pub spoken: u64,
    /// Windows.
    pub windows: u32,
    /// Pieces.
    pub pieces: u32,
    /// The most that was held in memory at a time.
    pub most_held: usize,
}

impl Account {
    /// Samples that are in no piece.
    pub fn dropped(&self) -> u64 {
        self.samples - self.spoken
    }

    /// Seconds in pieces.
    pub fn spoken_seconds(&self) -> f64 {
        seconds(self.spoken)
    }
}

/// Cuts a recording, as [`Stream`](crate::speech::audio::Stream) reads it, on the grid.
///
/// # Errors
/// [`LimitError`] if a limit cannot be.
pub fn segment<B>(blocks: B, limits: Limits) -> Result<Segments<B>, LimitError>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    limits.check()?;
    Ok(Segments {
        blocks,
        limits,
        block: Vec::new(),
        used: 0,
        held: Vec::new(),
        base: 0,
        ended: false,
        account: Account::default(),
    })
}

/// The pieces of a recording, in order of time, at most one of each window. After an error it is over, and what came before is of
/// no use.
pub struct Segments<B> {
    blocks: B,
    limits: Limits,
    /// The block that was read last, and how much of it is used.
    block: Vec<f32>,
    used: usize,
    /// The window that is not cut yet.
    held: Vec<f32>,
    /// The number of the first sample that is held: the last cut.
    base: u64,
    ended: bool,
    account: Account,
}

impl<B> Segments<B>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    /// What became of the recording so far; all of it once the last piece is out.
    pub fn account(&self) -> Account {
        self.account
    }

    /// Reads until the sample `end` is held, or the recording ends.
    fn fill(&mut self, end: u64) -> Result<(), AudioError> {
        while !self.ended && self.base + (self.held.len() as u64) < end {
            let missing = (end - self.base) as usize - self.held.len();
            let rest = &self.block[self.used..];
            let taken = rest.len().min(missing);
            self.held.extend_from_slice(&rest[..taken]);
            self.used += taken;
            if taken == 0 {
                match self.blocks.next() {
                    Some(block) => (self.block, self.used) = (block?, 0),
                    None => self.ended = true,
                }
            }
        }
        self.account.most_held = self.account.most_held.max(self.held.len());
        Ok(())
    }

    /// The samples of the next window; `None` at the end. The cut at its end is computed from the zone there and from nothing else.
    fn window(&mut self) -> Result<Option<Vec<f32>>, AudioError> {
        let zone = self.limits.zone_after(self.account.windows.into());
        self.fill(zone.end)?;
        if self.held.is_empty() {
            return Ok(None);
        }
        let there = self.base + self.held.len() as u64;
        let end = if there < zone.end {
            // The recording ends before this zone does: so there is no cut in it.
            there
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

    /// Where the voice of a window lies in it, with its margins.
    fn voice(&self, window: &[f32]) -> Option<Range<usize>> {
        // A detector remembers what it heard: each window has its own.
        let mut detector = Detector::default_boxed();
        let (mut first, mut last, mut is_voice) = (None, 0, false);
        for (number, frame) in window.chunks(FRAME).enumerate() {
            // A whole frame is what the detector takes; a last one is filled up with silence.
            let mut judged = [0; FRAME];
            for (judged, sample) in judged.iter_mut().zip(frame) {
                *judged = (sample * 32_768.0).round() as i16;
            }
            let least = if is_voice { self.limits.threshold - LENIENCE } else { self.limits.threshold };
            is_voice = detector.predict_i16(&judged) >= least;
            if is_voice {
                first.get_or_insert(number * FRAME);
                last = number * FRAME + frame.len();
            }
        }
        let margin = sample(self.limits.margin) as usize;
        first.map(|first| first.saturating_sub(margin)..(last + margin).min(window.len()))
    }

    fn next_piece(&mut self) -> Result<Option<Spoken>, AudioError> {
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
            return Ok(Some(Spoken { piece, audio }));
        }
    }
}

impl<B> Iterator for Segments<B>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    type Item = Result<Spoken, AudioError>;

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
