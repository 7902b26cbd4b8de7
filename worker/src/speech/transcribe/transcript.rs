//! The transcript of a recording, put together again: pieces by their times, dummies left out.
//!
//! A dummy's answer is told from a piece's by the plan alone, which never left the site; what a dummy was heard as is not looked
//! at. So dummies change a transcript by exactly nothing, nor does the order in which answers came. Pieces that were never
//! sent, and those that nobody answered, keep the words of the site's own recognizer, and every word says whose it is.
//!
//! To add a format: a file that writes it, its variant of [`Format`], its row:
//!
//! | format | what it tells | words of the site's own recognizer |
//! |---|---|---|
//! | `text` | words, a line break where nobody speaks for 2 s | in square brackets |
//! | `srt` | captions with times | in square brackets |
//! | `vtt` | captions with times | spans of class `offline` or `sensitive` |
//! | `json` | each word with its times, how sure, and whose it is | `"source": "offline"`, and why |

mod captions;
mod json;
pub mod wer;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::piece::{Heard, Piece};

/// Why a piece keeps the words of the site's own recognizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Something in it must not leave.
    Sensitive,
    /// It has more words of the vocabulary than a dummy has.
    Crowded,
    /// It was sent, and nobody answered.
    Unanswered,
}

/// Whose a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A provider's, by its number from 0.
    Provider(u32),
    /// The site's own recognizer's.
    Offline(Why),
}

/// A piece of the recording, with what is known of it at the site.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where it lies.
    pub piece: Piece,
    /// What the site's own recognizer heard in it, timed from the beginning of the recording.
    pub offline: Heard,
    /// Why it was not sent; absent when it was.
    pub stays: Option<Why>,
}

/// A word of the transcript.
#[derive(Clone, PartialEq)]
pub struct Spoken {
    /// As its recognizer wrote it, without white space.
    pub text: String,
    /// When it begins, seconds from the beginning of the recording.
    pub start: f64,
    /// When it is over, not before `start`.
    pub end: f64,
    /// How sure its recognizer is, 0 to 1; absent where it does not say.
    pub confidence: Option<f64>,
    /// Whose it is.
    pub source: Source,
}

/// Its times and whose it is: words do not belong in logs.
impl std::fmt::Debug for Spoken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spoken({:.3} to {:.3} s, {:?})", self.start, self.end, self.source)
    }
}

/// In what form a transcript is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Words.
    Text,
    /// SubRip captions.
    Srt,
    /// WebVTT captions.
    Vtt,
    /// Everything that is known.
    Json,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Text, Self::Srt, Self::Vtt, Self::Json];

    /// What a file of it ends with.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
            Self::Json => "json",
        }
    }
}

/// The transcript of one recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    words: Vec<Spoken>,
}

/// Silence after which text goes on in a new line, seconds.
const PARAGRAPH: f64 = 2.0;

impl Transcript {
    /// Puts the parts of a recording, in any order, together with the `answers` (provider, place, words timed from the beginning of
    /// the sound), in any order. `piece` says which piece stood at a provider's place; nothing for a dummy.
    ///
    /// Each piece goes to one provider; were it answered by two, the one with the lower number holds.
    pub fn assemble(
        parts: &[Part],
        answers: impl IntoIterator<Item = (u32, u32, Heard)>,
        piece: impl Fn(u32, u32) -> Option<u32>,
    ) -> Self {
        let mut answered: BTreeMap<u32, (u32, Heard)> = BTreeMap::new();
        for (provider, place, heard) in answers {
            let Some(piece) = piece(provider, place) else { continue };
            if answered.get(&piece).is_none_or(|(other, _)| provider < *other) {
                answered.insert(piece, (provider, heard));
            }
        }
        let mut parts: Vec<&Part> = parts.iter().collect();
        parts.sort_by_key(|part| (part.piece.samples.start, part.piece.id));
        let words = parts.into_iter().flat_map(|part| words(part, answered.get(&part.piece.id))).collect();
        Self { words }
    }

    /// Its words, in order of time.
    pub fn words(&self) -> &[Spoken] {
        &self.words
    }

    /// The words alone, a space between each two: what is compared with a reference.
    pub fn plain(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }

    /// The file of it.
    pub fn write(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Srt => captions::srt(&self.words),
            Format::Vtt => captions::vtt(&self.words),
            Format::Json => json::write(&self.words),
        }
    }

    fn text(&self) -> String {
        let apart = |one: &Spoken, next: &Spoken| next.start - one.end >= PARAGRAPH;
        let paragraphs = self.words.chunk_by(|one, next| !apart(one, next));
        let lines = paragraphs.map(|words| bracketed(words) + "\n");
        lines.collect()
    }
}

/// The words of a part, from whom they are.
fn words(part: &Part, answer: Option<&(u32, Heard)>) -> Vec<Spoken> {
    let (begin, end) = (part.piece.start(), part.piece.end());
    let (heard, shift, source) = match (part.stays, answer) {
        (Some(why), _) => (&part.offline, 0.0, Source::Offline(why)),
        (None, Some((provider, heard))) => (heard, begin, Source::Provider(*provider)),
        (None, None) => (&part.offline, 0.0, Source::Offline(Why::Unanswered)),
    };
    let spoken = heard.words.iter().map(|word| {
        let word = word.later(shift);
        let start = word.start.clamp(begin, end);
        Spoken { text: word.text, start, end: word.end.clamp(start, end), confidence: word.confidence, source }
    });
    let mut spoken: Vec<Spoken> = spoken.collect();
    spoken.sort_by(|one, other| one.start.total_cmp(&other.start));
    spoken
}

/// Words with a space between each two; runs of the site's own recognizer in square brackets.
fn bracketed(words: &[Spoken]) -> String {
    let is_offline = |word: &Spoken| matches!(word.source, Source::Offline(_));
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
