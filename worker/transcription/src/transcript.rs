//! Assembles the transcript of a recording: pieces by their times, without dummies.
//!
//! Only the plan, which never left the site, distinguishes a dummy's answer from a piece's; the words of dummies are discarded.
//! So dummies do not change a transcript at all, and neither does the order of the answers. Pieces that were not sent, or not
//! answered, keep the words of the site's own recognizer, and every word carries its source.
//!
//! To add a format: add a file that writes it, its variant of [`Format`], and its row:
//!
//! | format | content | words of the site's own recognizer |
//! |---|---|---|
//! | `text` | words, a line break after a silence of 2 s | in square brackets |
//! | `srt` | captions with times | in square brackets |
//! | `vtt` | captions with times | spans of class `offline` or `sensitive` |
//! | `json` | each word with its times, confidence and source | `"source": "offline"`, and the reason |

mod captions;
pub mod json;
pub mod wer;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use undertone_worker_speech::transcript_format::Format;

use super::piece::{Piece, Recognition};

/// Reasons that a piece keeps the words of the site's own recognizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfflineReason {
    /// It holds sensitive words.
    Sensitive,
    /// It has more vocabulary words than a dummy has.
    Crowded,
    /// It is longer than a sound that leaves.
    Long,
    /// It was sent and not answered.
    Unanswered,
}

/// The source of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordSource {
    /// A provider, by its number from 0.
    Provider(u32),
    /// The site's own recognizer.
    Offline(OfflineReason),
}

/// A piece of the recording with the site's information about it.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptPart {
    /// Position in the recording.
    pub piece: Piece,
    /// Words from the site's own recognizer, timed from the beginning of the recording.
    pub offline: Recognition,
    /// The reason that it was not sent; `None` when it was sent.
    pub stays: Option<OfflineReason>,
}

/// A word of the transcript.
#[derive(Clone, PartialEq)]
pub struct TranscriptWord {
    /// Text as its recognizer wrote it, without white space.
    pub text: String,
    /// Start time, in seconds from the beginning of the recording.
    pub start: f64,
    /// End time, not before `start`.
    pub end: f64,
    /// The recognizer's confidence, 0 to 1; `None` when it reports none.
    pub confidence: Option<f64>,
    /// The source.
    pub source: WordSource,
}

impl TranscriptWord {
    /// Returns whether its piece stayed at the site because of sensitive words.
    pub fn is_sensitive(&self) -> bool {
        self.source == WordSource::Offline(OfflineReason::Sensitive)
    }
}

/// Prints times and source: words do not belong in logs.
impl std::fmt::Debug for TranscriptWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TranscriptWord({:.3} to {:.3} s, {:?})", self.start, self.end, self.source)
    }
}

/// The transcript of one recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    words: Vec<TranscriptWord>,
}

/// Silence after which the text continues on a new line, in seconds.
const PARAGRAPH: f64 = 2.0;

impl Transcript {
    /// Combines the parts of a recording, in any order, with the `answers` (provider, place, words timed from the beginning of the
    /// sound), in any order. `piece` returns the piece at a provider's place; `None` for a dummy.
    ///
    /// Each piece goes to one provider; if two answered it, the one with the lower number counts.
    pub fn assemble(
        parts: &[TranscriptPart],
        answers: impl IntoIterator<Item = (u32, u32, Recognition)>,
        piece: impl Fn(u32, u32) -> Option<u32>,
    ) -> Self {
        let mut answers_by_piece: BTreeMap<u32, (u32, Recognition)> = BTreeMap::new();
        for (provider, place, recognition) in answers {
            let Some(piece) = piece(provider, place) else { continue };
            if answers_by_piece.get(&piece).is_none_or(|(other, _)| provider < *other) {
                answers_by_piece.insert(piece, (provider, recognition));
            }
        }
        let mut parts: Vec<&TranscriptPart> = parts.iter().collect();
        parts.sort_by_key(|part| (part.piece.samples.start, part.piece.id));
        let words = parts.into_iter().flat_map(|part| words(part, answers_by_piece.get(&part.piece.id))).collect();
        Self { words }
    }

    /// Returns the words, in order of time.
    pub fn words(&self) -> &[TranscriptWord] {
        &self.words
    }

    /// Returns the words alone, separated by spaces, for comparison with a reference.
    pub fn plain(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }

    /// Returns the content of the file in a format.
    pub fn write(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Srt => captions::srt(&self.words),
            Format::Vtt => captions::vtt(&self.words),
            Format::Json => json::write(&self.words),
        }
    }

    fn text(&self) -> String {
        let apart = |one: &TranscriptWord, next: &TranscriptWord| next.start - one.end >= PARAGRAPH;
        let paragraphs = self.words.chunk_by(|one, next| !apart(one, next));
        let lines = paragraphs.map(|words| join_bracketed(words) + "\n");
        lines.collect()
    }
}

/// Returns the words of a part with their source.
fn words(part: &TranscriptPart, answer: Option<&(u32, Recognition)>) -> Vec<TranscriptWord> {
    let begin = part.piece.start();
    let end = part.piece.end();
    let (recognition, shift, source) = match (part.stays, answer) {
        (Some(why), _) => (&part.offline, 0.0, WordSource::Offline(why)),
        (None, Some((provider, recognition))) => (recognition, begin, WordSource::Provider(*provider)),
        (None, None) => (&part.offline, 0.0, WordSource::Offline(OfflineReason::Unanswered)),
    };
    let words = recognition.words.iter().map(|word| {
        let word = word.later(shift);
        let start = word.start.clamp(begin, end);
        TranscriptWord { text: word.text, start, end: word.end.clamp(start, end), confidence: word.confidence, source }
    });
    let mut words: Vec<TranscriptWord> = words.collect();
    words.sort_by(|one, other| one.start.total_cmp(&other.start));
    words
}

/// Joins words with spaces; runs of the site's own recognizer are in square brackets.
fn join_bracketed(words: &[TranscriptWord]) -> String {
    let is_offline = |word: &TranscriptWord| matches!(word.source, WordSource::Offline(_));
    let runs = words.chunk_by(|one, next| is_offline(one) == is_offline(next));
    let runs: Vec<String> = runs
        .map(|run| {
            let text = run.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
            if is_offline(&run[0]) { format!("[{text}]") } else { text }
        })
        .collect();
    runs.join(" ")
}

#[cfg(test)]
mod tests;
