//! What the rooms of transcription hand each other: where a piece of a recording lies, and which words were heard in it.
//!
//! Plain values. They are printed as sizes and times, never as words: transcripts do not belong in logs.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::speech::audio::RATE;

/// A piece of one recording, never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// Its place among the recording's pieces in order of time, from 0.
    pub id: u32,
    /// The samples it is, counted from the beginning of the recording at 16 kHz; the end is not part of it.
    pub samples: Range<u64>,
}

impl Piece {
    /// When it begins, seconds from the beginning of the recording.
    pub fn start(&self) -> f64 {
        seconds(self.samples.start)
    }

    /// When it is over, seconds from the beginning of the recording.
    pub fn end(&self) -> f64 {
        seconds(self.samples.end)
    }

    /// Its length, seconds.
    pub fn seconds(&self) -> f64 {
        seconds(self.samples.end.saturating_sub(self.samples.start))
    }

    /// Whether a word, timed from the beginning of the recording, is this piece's: its middle lies within. Pieces do not
    /// overlap, so no word is of two.
    pub fn holds(&self, word: &Word) -> bool {
        (self.start()..self.end()).contains(&word.middle())
    }
}

/// A word with its times.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Word {
    /// As the recognizer wrote it, without white space.
    pub text: String,
    /// When it begins, seconds, not negative.
    pub start: f64,
    /// When it is over, seconds, not before `start`.
    pub end: f64,
    /// How sure the recognizer is of it, 0 to 1; absent where it does not say.
    pub confidence: Option<f64>,
}

impl Word {
    /// Half-way between its beginning and its end, seconds.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.start, self.end)
    }

    /// The same word `seconds` later: from the time of a piece to the time of its recording.
    #[must_use]
    pub fn later(&self, seconds: f64) -> Self {
        Self { start: self.start + seconds, end: self.end + seconds, ..self.clone() }
    }
}

/// Its length and its times: words do not belong in logs.
impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({} bytes, {:.3} to {:.3} s)", self.text.len(), self.start, self.end)
    }
}

/// What a recognizer heard in some audio, in order of time; nothing is an answer too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Heard {
    /// The words, timed from the beginning of that audio.
    pub words: Vec<Word>,
}

impl Heard {
    /// The words, a space between each two.
    pub fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// The time of a sample, seconds.
pub fn seconds(samples: u64) -> f64 {
    samples as f64 / f64::from(RATE)
}

/// The sample at a time: the nearest; a time before the beginning is the beginning.
pub fn sample(seconds: f64) -> u64 {
    (seconds.max(0.0) * f64::from(RATE)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, start: f64, end: f64) -> Word {
        Word { text: text.to_owned(), start, end, confidence: None }
    }

    #[test]
    fn a_word_across_two_pieces_is_of_the_one_that_has_its_middle() {
        let pieces = [Piece { id: 0, samples: 0..16_000 }, Piece { id: 1, samples: 16_000..40_000 }];
        let of =
            |word: &Word| pieces.iter().filter(|piece| piece.holds(word)).map(|piece| piece.id).collect::<Vec<_>>();
        assert_eq!(of(&word("early", 0.5, 1.2)), [0]);
        assert_eq!(of(&word("late", 0.9, 1.2)), [1]);
        assert_eq!(of(&word("between", 0.9, 1.1)), [1], "the end of a piece is the next one's");
        assert!(of(&word("after", 2.4, 2.7)).is_empty());
        assert!((pieces[1].seconds() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn times_and_samples_are_each_others_inverse() {
        for at in [0, 1, 159, 16_000, 1_382_400_000] {
            assert_eq!(sample(seconds(at)), at);
        }
        assert_eq!(sample(-0.3), 0);
    }

    #[test]
    fn what_was_said_is_not_in_what_is_printed() {
        let heard = Heard { words: vec![word("haemorrhage", 0.0, 0.7).later(2.0), word("ward", 3.0, 3.2)] };
        assert_eq!(heard.text(), "haemorrhage ward");
        let printed = format!("{heard:?}");
        assert!(printed.contains("2.700 s") && !printed.contains("haem") && !printed.contains("ward"), "{printed}");
    }
}
