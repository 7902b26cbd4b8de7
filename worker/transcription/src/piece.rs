//! Values that the modules of transcription exchange: the position of a piece in its recording, and recognized words.
//!
//! Their `Debug` output shows sizes and times, never words: transcripts do not belong in logs.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use undertone_worker_speech::audio::RATE;

/// A piece of one recording; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// Position among the recording's pieces in order of time, from 0.
    pub id: u32,
    /// Range of samples, counted from the beginning of the recording at 16 kHz; the end is exclusive.
    pub samples: Range<u64>,
}

impl Piece {
    /// Returns the start time, in seconds from the beginning of the recording.
    pub fn start(&self) -> f64 {
        seconds(self.samples.start)
    }

    /// Returns the end time, in seconds from the beginning of the recording.
    pub fn end(&self) -> f64 {
        seconds(self.samples.end)
    }

    /// Returns the length in seconds.
    pub fn seconds(&self) -> f64 {
        seconds(self.samples.end.saturating_sub(self.samples.start))
    }

    /// Returns whether `word`, timed from the beginning of the recording, belongs to this piece: its middle lies within. Pieces
    /// do not overlap, so a word belongs to at most one piece.
    pub fn holds(&self, word: &TimedWord) -> bool {
        (self.start()..self.end()).contains(&word.middle())
    }
}

/// A word with its times.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedWord {
    /// Text as the recognizer wrote it, without white space.
    pub text: String,
    /// Start time in seconds, not negative.
    pub start: f64,
    /// End time in seconds, not before `start`.
    pub end: f64,
    /// The recognizer's confidence, 0 to 1; `None` when the recognizer reports none.
    pub confidence: Option<f64>,
}

impl TimedWord {
    /// Returns the midpoint between start and end, in seconds.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.start, self.end)
    }

    /// Returns the word shifted by `seconds`: from the time of a piece to the time of its recording.
    #[must_use]
    pub fn later(&self, seconds: f64) -> Self {
        Self { start: self.start + seconds, end: self.end + seconds, ..self.clone() }
    }
}

/// Prints length and times only: words do not belong in logs.
impl fmt::Debug for TimedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimedWord({} bytes, {:.3} to {:.3} s)", self.text.len(), self.start, self.end)
    }
}

/// The words that a recognizer found in some audio, in order of time; possibly none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recognition {
    /// The words, timed from the beginning of the audio.
    pub words: Vec<TimedWord>,
}

impl Recognition {
    /// Returns the words, separated by spaces.
    pub fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// Returns the time of a sample, in seconds.
pub fn seconds(samples: u64) -> f64 {
    samples as f64 / f64::from(RATE)
}

/// Returns the sample nearest to a time; 0 for a negative time.
pub fn sample(seconds: f64) -> u64 {
    (seconds.max(0.0) * f64::from(RATE)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, start: f64, end: f64) -> TimedWord {
        TimedWord { text: text.to_owned(), start, end, confidence: None }
    }

    #[test]
    fn word_across_two_pieces_belongs_to_its_middle() {
        let pieces = [Piece { id: 0, samples: 0..16_000 }, Piece { id: 1, samples: 16_000..40_000 }];
        let of = |word: &TimedWord| {
            pieces.iter().filter(|piece| piece.holds(word)).map(|piece| piece.id).collect::<Vec<_>>()
        };
        assert_eq!(of(&word("early", 0.5, 1.2)), [0]);
        assert_eq!(of(&word("late", 0.9, 1.2)), [1]);
        assert_eq!(of(&word("between", 0.9, 1.1)), [1], "the end of a piece is the next one's");
        assert!(of(&word("after", 2.4, 2.7)).is_empty());
        assert!((pieces[1].seconds() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn times_and_samples_are_inverse() {
        for at in [0, 1, 159, 16_000, 1_382_400_000] {
            assert_eq!(sample(seconds(at)), at);
        }
        assert_eq!(sample(-0.3), 0);
    }

    #[test]
    fn debug_output_holds_no_words() {
        let recognition = Recognition { words: vec![word("haemorrhage", 0.0, 0.7).later(2.0), word("ward", 3.0, 3.2)] };
        assert_eq!(recognition.text(), "haemorrhage ward");
        let printed = format!("{recognition:?}");
        assert!(printed.contains("2.700 s") && !printed.contains("haem") && !printed.contains("ward"), "{printed}");
    }
}
