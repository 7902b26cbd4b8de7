//! Cuts a recording into short pieces that hold all its speech, each sample at most once.
//!
//! First by ear: [`segment`] asks a detector of voice (earshot, a small network whose weights are part of its library) about
//! every 16 ms, cuts at pauses, and cuts speech without a pause at its quietest place before it gets too long. Then, once a
//! first transcript is there, by word: [`split`] cuts again so that a piece has at most one word of the vocabulary, where
//! there is a place to cut. [`cut`] takes known pieces out of a recording a second time. What is no speech is dropped and
//! accounted for.
//!
//! Recordings are streams here: what is in memory is a piece, a pause and a block, however long the recording
//! ([`Limits::most_held`]). Nothing here knows words except by their times.

pub mod cut;
mod quiet;
mod segmenter;
pub mod split;

use std::fmt;

use earshot::Detector;

use self::segmenter::Segmenter;
use super::piece::{Piece, sample, seconds};
use crate::speech::audio::AudioError;

/// Samples that the detector judges at once: 16 ms.
pub(in crate::speech::transcribe) const FRAME: usize = 256;

/// How pieces are cut. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// No piece is shorter, 0.1 to 0.4, but at the end of a recording.
    pub shortest: f64,
    /// No piece is longer, 1 to 30.
    pub longest: f64,
    /// Silence that ends a piece, `shortest` + `margin` to 2.
    pub pause: f64,
    /// Silence kept on either side of speech, 0 to `shortest`: the detector is late for soft sounds.
    pub margin: f64,
    /// Score of the detector at which speech begins, 0.2 to 0.9; it goes on until the score is 0.15 less.
    pub threshold: f32,
    /// Silence between two words, by the transcript, in which may be cut, 0.01 to 1.
    pub gap: f64,
    /// How far below the loudness of its piece the sound must fall for a cut where the transcript has no such silence, dB, -60
    /// to -6.
    pub quiet: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { shortest: 0.2, longest: 6.0, pause: 0.3, margin: 0.1, threshold: 0.5, gap: 0.03, quiet: -20.0 }
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
            ("shortest", self.shortest, 0.1, 0.4),
            ("longest", self.longest, 1.0, 30.0),
            ("margin", self.margin, 0.0, self.shortest),
            ("pause", self.pause, self.shortest + self.margin, 2.0),
            ("threshold", f64::from(self.threshold), 0.2, 0.9),
            ("gap", self.gap, 0.01, 1.0),
            ("quiet", self.quiet, -60.0, -6.0),
        ];
        // Sums of decimals are off by a rounding, which is nobody's fault.
        let wrong = fields.into_iter().find(|(_, value, least, most)| !(least - 1e-9..=most + 1e-9).contains(value));
        match wrong {
            Some((field, value, least, most)) => Err(LimitError { field, value, least, most }),
            None => Ok(()),
        }
    }

    /// The most samples of a recording that are held while it is cut, besides the block that was read last.
    pub fn most_held(&self) -> usize {
        sample(self.longest + self.shortest) as usize + FRAME
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
    /// Pieces.
    pub pieces: u32,
    /// Pieces that end in the middle of speech, because it had no pause before it got too long.
    pub forced: u32,
    /// The most that was held in memory at a time.
    pub most_held: usize,
}

impl Account {
    /// Samples that are no speech, and in no piece.
    pub fn dropped(&self) -> u64 {
        self.samples - self.spoken
    }

    /// Seconds in pieces.
    pub fn spoken_seconds(&self) -> f64 {
        seconds(self.spoken)
    }
}

/// Cuts a recording, as [`Stream`](crate::speech::audio::Stream) reads it, at its pauses.
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
        detector: Detector::default_boxed(),
        segmenter: Segmenter::new(limits),
        block: Vec::new(),
        at: 0,
        frame: Vec::with_capacity(FRAME),
        ended: false,
    })
}

/// The pieces of a recording, in order of time. After an error it is over, and what came before is of no use.
pub struct Segments<B> {
    blocks: B,
    detector: Box<Detector>,
    segmenter: Segmenter,
    /// What was read last, and how much of it is used.
    block: Vec<f32>,
    at: usize,
    /// Samples of a frame that is not full yet.
    frame: Vec<f32>,
    ended: bool,
}

impl<B> Segments<B> {
    /// What became of the recording so far; all of it once the last piece is out.
    pub fn account(&self) -> Account {
        self.segmenter.account()
    }

    /// Judges the frame and hands it on.
    fn judged(&mut self) -> Option<Spoken> {
        // A whole frame is what the detector takes; a last one is filled up with silence for it alone.
        let mut judged = [0; FRAME];
        for (judged, sample) in judged.iter_mut().zip(&self.frame) {
            *judged = (sample * 32_768.0).round() as i16;
        }
        let score = self.detector.predict_i16(&judged);
        let spoken = self.segmenter.frame(&self.frame, score);
        self.frame.clear();
        spoken
    }
}

impl<B> Iterator for Segments<B>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    type Item = Result<Spoken, AudioError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let rest = &self.block[self.at..];
            let taken = rest.len().min(FRAME - self.frame.len());
            self.frame.extend_from_slice(&rest[..taken]);
            self.at += taken;
            if self.frame.len() == FRAME {
                if let Some(spoken) = self.judged() {
                    return Some(Ok(spoken));
                }
                continue;
            }
            match self.blocks.next() {
                Some(Ok(block)) => (self.block, self.at) = (block, 0),
                Some(Err(error)) => {
                    self.ended = true;
                    self.segmenter = Segmenter::new(Limits::default());
                    return Some(Err(error));
                }
                None => {
                    self.ended = true;
                    if !self.frame.is_empty()
                        && let Some(spoken) = self.judged()
                    {
                        return Some(Ok(spoken));
                    }
                }
            }
        }
        self.segmenter.finish().map(Ok)
    }
}

#[cfg(test)]
mod tests;
