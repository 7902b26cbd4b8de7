//! The vocabulary: the words whose counts are hidden among dummies.
//!
//! A provider hears dummies for every word of it, so the vocabulary is told to everybody. How it came about therefore
//! belongs to it, as [`Origin`], and what it tells of a recording is a [`Disclosure`] that whoever charges must look at:
//!
//! * [`public`] takes a list that anybody may have. It tells nothing.
//! * [`from_transcripts`] takes the words that a first transcript uses most, and those that it uses more than others do
//!   (TF-IDF against a [`Baseline`]). That some word is in it tells that somebody said it. A public list beside it makes the
//!   hidden part longer and hides which of its own words were said; words that are on no list stay told.
//!
//! Words are compared by their stems. The order is that of the stems, whatever the data, so that it tells nothing either.
//! Words that are no vocabulary, stop words among them, are not protected one by one: they count as "nothing of the
//! vocabulary", which [`plan`](super::plan) covers as if it were a word.
//!
//! No word is logged, and none is in an error. To add a language: a row in [`language`].

pub mod baseline;
mod choice;
pub mod language;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_privacy::Event;

use super::piece::Word;
pub use baseline::Baseline;
pub use choice::{Choice, from_transcripts};
use language::Language;

/// Most words of a vocabulary. Each costs dummies at every provider.
pub const MOST_WORDS: usize = 20_000;

/// How a vocabulary came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "origin", rename_all = "snake_case")]
pub enum Origin {
    /// A public list and nothing else.
    Public {
        /// SHA-256 of the list's words, in hexadecimal, to be held against the list that was meant.
        list: String,
    },
    /// Words of the transcripts, with a public list or without.
    FromData {
        /// How many of its words are on no list: whoever hears the dummies knows that these were said.
        told: u32,
        /// SHA-256 of the public list that was put beside them.
        list: Option<String>,
    },
}

/// What the dummies tell by which words they carry, beside the counts that noise covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disclosure {
    /// Nothing: the words were there before the data.
    Nothing,
    /// That so many words were said and, of a list beside them, that nothing else was chosen. No noise covers it.
    Words(u32),
}

impl Disclosure {
    /// What it costs beside the noise: nothing, or a release without noise, which only public and open data may pay.
    pub const fn event(self) -> Option<Event> {
        match self {
            Self::Nothing => None,
            Self::Words(_) => Some(Event::NonPrivate),
        }
    }
}

/// One word: a stem and how it may be said.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    stem: String,
    /// Sorted, at least one.
    forms: Vec<String>,
}

/// The words, in the order of their stems.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Vocabulary {
    language: Language,
    entries: Vec<Entry>,
    origin: Origin,
}

/// Why there is no vocabulary.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// A language without a stemmer.
    #[error("language: {0:?} is not known here; write a code of two letters such as `en`, `de` or `fr`")]
    Language(String),
    /// Nothing to hide.
    #[error("vocabulary: no word is left without stop words; give a longer list, or keep more of the words")]
    Empty,
    /// More than dummies can be made for.
    #[error("vocabulary: {0} words, at most {MOST_WORDS}: give a shorter list, or lower `top_percent` or `most`")]
    TooMany(usize),
    /// Numbers that make no sense.
    #[error("{field}: {reason}")]
    Choice {
        /// The field.
        field: &'static str,
        /// What it must be.
        reason: &'static str,
    },
    /// A line of a file that cannot be read.
    #[error("{file}, line {line}: {reason}")]
    Line {
        /// Which kind of file.
        file: &'static str,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A vocabulary that was kept is not one that was made here.
    #[error("vocabulary: stems are not sorted, not different, or without a word")]
    Order,
}

/// What a piece has of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Nothing of it.
    Nothing,
    /// One word of it, once; by its number.
    One(u32),
    /// More than one word, or one more than once.
    Several,
}

impl Vocabulary {
    /// How many words.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Whether there is none; never so.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The language of its stems.
    pub const fn language(&self) -> Language {
        self.language
    }

    /// How it came about.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What it tells by being known.
    pub const fn disclosure(&self) -> Disclosure {
        match self.origin {
            Origin::Public { .. } => Disclosure::Nothing,
            Origin::FromData { told, .. } => Disclosure::Words(told),
        }
    }

    /// The ways in which the word of this number may be said, sorted; none beyond the last.
    pub fn forms(&self, word: u32) -> &[String] {
        self.entries.get(word as usize).map_or(&[], |entry| &entry.forms)
    }

    /// The number of the word of which `text` is a form.
    pub fn number(&self, text: &str) -> Option<u32> {
        let stem = self.language.stem(&language::normal(text)?);
        self.entries.binary_search_by(|entry| entry.stem.as_str().cmp(&stem)).ok().map(|place| place as u32)
    }

    /// What these words have of it. By what a first transcript says; where that errs, a piece is among the wrong ones here,
    /// and the counts of what was really said are covered all the same, for the noise does not depend on them.
    pub fn held(&self, words: &[Word]) -> Held {
        let mut found = words.iter().flat_map(|word| word.text.split_whitespace()).filter_map(|word| self.number(word));
        match (found.next(), found.next()) {
            (None, _) => Held::Nothing,
            (Some(word), None) => Held::One(word),
            (Some(_), Some(_)) => Held::Several,
        }
    }

    /// Puts it together: stems with their forms.
    fn new(
        language: Language,
        forms: BTreeMap<String, BTreeSet<String>>,
        origin: Origin,
    ) -> Result<Self, VocabularyError> {
        let entries = forms.into_iter().map(|(stem, forms)| Entry { stem, forms: forms.into_iter().collect() });
        Self::checked(language, entries.collect(), origin)
    }

    fn checked(language: Language, entries: Vec<Entry>, origin: Origin) -> Result<Self, VocabularyError> {
        let sorted =
            entries.is_sorted_by(|a, b| a.stem < b.stem) && entries.iter().all(|entry| !entry.forms.is_empty());
        match entries.len() {
            0 => Err(VocabularyError::Empty),
            many if many > MOST_WORDS => Err(VocabularyError::TooMany(many)),
            _ if !sorted => Err(VocabularyError::Order),
            _ => Ok(Self { language, entries, origin }),
        }
    }
}

/// How many words and whence, never which.
impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vocabulary({} words, {:?})", self.entries.len(), self.origin)
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    language: Language,
    entries: Vec<Entry>,
    origin: Origin,
}

impl TryFrom<Stored> for Vocabulary {
    type Error = VocabularyError;
    fn try_from(stored: Stored) -> Result<Self, VocabularyError> {
        Self::checked(stored.language, stored.entries, stored.origin)
    }
}

impl From<Vocabulary> for Stored {
    fn from(vocabulary: Vocabulary) -> Self {
        Self { language: vocabulary.language, entries: vocabulary.entries, origin: vocabulary.origin }
    }
}

/// The words of a public list: all that are no stop words.
///
/// # Errors
/// [`VocabularyError`] when none is left or too many are.
pub fn public(language: Language, list: &List) -> Result<Vocabulary, VocabularyError> {
    Vocabulary::new(language, list.stems(language), Origin::Public { list: list.digest() })
}

/// A list of words that was there before the data: a dictionary of a field, the most frequent words of a language, words of
/// another domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List(BTreeSet<String>);

impl List {
    /// Reads a list: a word a line; what follows a tab is not looked at, nor are empty lines and those that begin with `#`.
    ///
    /// # Errors
    /// [`VocabularyError::Line`] for a line that is no single word.
    pub fn parse(text: &str) -> Result<Self, VocabularyError> {
        let word = |(number, line): (usize, &str)| {
            let word = line.split('\t').next().unwrap_or_default().trim();
            if word.is_empty() || word.starts_with('#') {
                return None;
            }
            let reason = "one word a line, of letters and digits";
            let wrong = VocabularyError::Line { file: "word list", line: number + 1, reason };
            let single = !word.contains(char::is_whitespace);
            Some(language::normal(word).filter(|_| single).ok_or(wrong))
        };
        text.lines().enumerate().filter_map(word).collect::<Result<_, _>>().map(Self)
    }

    /// These words, whatever they begin with: a job's list has no comments, and a word that were left out would be protected by
    /// nothing.
    ///
    /// # Errors
    /// [`VocabularyError::Line`] for what is no single word.
    pub fn of(words: &[String]) -> Result<Self, VocabularyError> {
        let word = |(number, word): (usize, &String)| {
            let reason = "one word, of letters and digits";
            let wrong = VocabularyError::Line { file: "word list", line: number + 1, reason };
            let single = !word.contains(char::is_whitespace);
            language::normal(word).filter(|_| single).ok_or(wrong)
        };
        words.iter().enumerate().map(word).collect::<Result<_, _>>().map(Self)
    }

    /// Stems of its words that are no stop words, with the words.
    fn stems(&self, language: Language) -> BTreeMap<String, BTreeSet<String>> {
        let stops = language.stop_words();
        let mut stems: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for word in self.0.iter().filter(|word| !stops.contains(word.as_str())) {
            stems.entry(language.stem(word)).or_default().insert(word.clone());
        }
        stems
    }

    /// SHA-256 of its words, sorted, a line feed after each.
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for word in &self.0 {
            hash.update(word.as_bytes());
            hash.update(b"\n");
        }
        hex::encode(hash.finalize())
    }
}

#[cfg(test)]
mod tests;
