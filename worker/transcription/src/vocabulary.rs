//! The vocabulary: the words whose counts are hidden among dummies.
//!
//! A provider receives dummies for every word of the vocabulary, so every provider learns the vocabulary. So a vocabulary
//! states how it was chosen, as [`VocabularyOrigin`], and what this choice discloses about a recording, as [`WordDisclosure`],
//! which must be charged:
//!
//! * [`public`] uses a list that anyone may have. It discloses nothing.
//! * [`select_words`] uses words of a public list that were chosen from first transcripts with noise. The choice is a private
//!   release of its own, which every recipient of the dummies learns.
//! * [`from_transcripts`] uses the most frequent words of a first transcript, and the words that are more frequent in it than
//!   elsewhere (TF-IDF against a [`BaselineCounts`]). The presence of a word discloses that it was spoken. An added public list
//!   makes the hidden part longer and hides which of its own words were spoken; words outside the list remain disclosed.
//!
//! Words are compared by their stems. The order is that of the stems, independent of the data, so it discloses nothing either.
//! Words outside the vocabulary, stop words among them, are not protected individually: they count as "no vocabulary word",
//! which [`plan`](super::plan) covers as if it were a word.
//!
//! No word appears in a log or an error. To add a language: add a row in [`language`].

pub mod baseline;
mod choice;
pub mod language;
mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_privacy::{Epsilon, Event};

use super::piece::TimedWord;
pub use baseline::BaselineCounts;
pub use choice::{WordChoice, from_transcripts};
use language::StemmingLanguage;
pub use selection::{WordSelection, select_words};

/// Largest number of words of a vocabulary. Each word needs dummies at every provider.
pub const MOST_WORDS: usize = 20_000;

/// The origin of a vocabulary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "origin", rename_all = "snake_case")]
pub enum VocabularyOrigin {
    /// A public list only.
    Public {
        /// SHA-256 of the list's words, hexadecimal, for comparison with the intended list.
        list: String,
    },
    /// Words of the transcripts, with or without a public list.
    FromData {
        /// Number of words outside the list: every recipient of the dummies learns that these were spoken.
        told: u32,
        /// SHA-256 of the added public list.
        list: Option<String>,
    },
    /// Words of a public list of candidates, chosen with noise, with or without another public list.
    Selected {
        /// ε of the choice.
        epsilon: Epsilon,
        /// SHA-256 of the candidates.
        candidates: String,
        /// SHA-256 of the added public list.
        list: Option<String>,
    },
}

/// The disclosure by the choice of the words, besides the counts that noise covers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WordDisclosure {
    /// Nothing: the words do not depend on the data.
    Nothing,
    /// That these many words were spoken and that no other word outside the list was chosen. No noise covers it.
    Words(u32),
    /// A choice with noise, of this ε.
    Selected(Epsilon),
}

impl WordDisclosure {
    /// Returns its privacy event besides the noise of the counts: none, the choice with noise, or a release without noise, which
    /// only public and open data may pay for.
    pub const fn event(self) -> Option<Event> {
        match self {
            Self::Nothing => None,
            Self::Words(_) => Some(Event::NonPrivate),
            Self::Selected(epsilon) => Some(Event::Pure { epsilon }),
        }
    }
}

/// One word: a stem and its forms.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct VocabularyEntry {
    stem: String,
    /// Sorted, at least one.
    forms: Vec<String>,
}

/// The words, in the order of their stems.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredVocabulary", into = "StoredVocabulary")]
pub struct Vocabulary {
    language: StemmingLanguage,
    entries: Vec<VocabularyEntry>,
    origin: VocabularyOrigin,
}

/// Reasons that there is no vocabulary.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// The language has no stemmer.
    #[error("language: {0:?} is not known here; write a code of two letters such as `en`, `de` or `fr`")]
    Language(String),
    /// No word remains.
    #[error("vocabulary: no word is left without stop words; give a longer list, or keep more of the words")]
    Empty,
    /// There are too many words.
    #[error("vocabulary: {0} words, at most {MOST_WORDS}: give a shorter list, or lower `top_percent` or `most`")]
    TooMany(usize),
    /// A number is out of range.
    #[error("{field}: {reason}")]
    Choice {
        /// The field.
        field: &'static str,
        /// The permitted values.
        reason: &'static str,
    },
    /// A line of a file is invalid.
    #[error("{file}, line {line}: {reason}")]
    Line {
        /// The kind of file.
        file: &'static str,
        /// The line, from 1.
        line: usize,
        /// The mistake.
        reason: &'static str,
    },
    /// The stored vocabulary is invalid.
    #[error("vocabulary: stems are not sorted, not different, or without a word")]
    Order,
}

/// The vocabulary words of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceWords {
    /// None.
    Nothing,
    /// One word, once; by its number.
    One(u32),
    /// More than one word, or one word more than once.
    Several,
}

impl Vocabulary {
    /// Returns the number of words.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns whether the vocabulary is empty; never true.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the language of the stems.
    pub const fn language(&self) -> StemmingLanguage {
        self.language
    }

    /// Returns the origin.
    pub const fn origin(&self) -> &VocabularyOrigin {
        &self.origin
    }

    /// Returns the disclosure by the choice of the words.
    pub const fn disclosure(&self) -> WordDisclosure {
        match self.origin {
            VocabularyOrigin::Public { .. } => WordDisclosure::Nothing,
            VocabularyOrigin::FromData { told, .. } => WordDisclosure::Words(told),
            VocabularyOrigin::Selected { epsilon, .. } => WordDisclosure::Selected(epsilon),
        }
    }

    /// Returns the forms of the word with this number, sorted; none for an unknown number.
    pub fn forms(&self, word: u32) -> &[String] {
        self.entries.get(word as usize).map_or(&[], |entry| &entry.forms)
    }

    /// Returns the number of the word of which `text` is a form.
    pub fn number(&self, text: &str) -> Option<u32> {
        let stem = self.language.stem(&language::normal(text)?);
        self.entries.binary_search_by(|entry| entry.stem.as_str().cmp(&stem)).ok().map(|place| place as u32)
    }

    /// Returns the vocabulary words among `words` of a first transcript. Where the transcript is wrong, the piece is counted for the
    /// wrong word here. The counts of the spoken words are covered nevertheless, because the noise does not depend on them.
    pub fn classify(&self, words: &[TimedWord]) -> PieceWords {
        let mut matches =
            words.iter().flat_map(|word| word.text.split_whitespace()).filter_map(|word| self.number(word));
        match (matches.next(), matches.next()) {
            (None, _) => PieceWords::Nothing,
            (Some(word), None) => PieceWords::One(word),
            (Some(_), Some(_)) => PieceWords::Several,
        }
    }

    /// Builds a vocabulary from stems with their forms.
    fn new(
        language: StemmingLanguage,
        forms: BTreeMap<String, BTreeSet<String>>,
        origin: VocabularyOrigin,
    ) -> Result<Self, VocabularyError> {
        let entries =
            forms.into_iter().map(|(stem, forms)| VocabularyEntry { stem, forms: forms.into_iter().collect() });
        Self::check_entries(language, entries.collect(), origin)
    }

    fn check_entries(
        language: StemmingLanguage,
        entries: Vec<VocabularyEntry>,
        origin: VocabularyOrigin,
    ) -> Result<Self, VocabularyError> {
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

/// Prints the number of words and the origin, no word.
impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vocabulary({} words, {:?})", self.entries.len(), self.origin)
    }
}

#[derive(Serialize, Deserialize)]
struct StoredVocabulary {
    language: StemmingLanguage,
    entries: Vec<VocabularyEntry>,
    origin: VocabularyOrigin,
}

impl TryFrom<StoredVocabulary> for Vocabulary {
    type Error = VocabularyError;
    fn try_from(stored: StoredVocabulary) -> Result<Self, VocabularyError> {
        Self::check_entries(stored.language, stored.entries, stored.origin)
    }
}

impl From<Vocabulary> for StoredVocabulary {
    fn from(vocabulary: Vocabulary) -> Self {
        Self { language: vocabulary.language, entries: vocabulary.entries, origin: vocabulary.origin }
    }
}

/// Builds the vocabulary of a public list: all its words except stop words.
///
/// # Errors
/// [`VocabularyError`] when no word remains or there are too many.
pub fn public(language: StemmingLanguage, list: &WordList) -> Result<Vocabulary, VocabularyError> {
    Vocabulary::new(language, list.stems(language), VocabularyOrigin::Public { list: list.digest() })
}

/// A list of words that does not depend on the data: a dictionary of a field, the most frequent words of a language, words of
/// another domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordList(BTreeSet<String>);

impl WordList {
    /// Parses a list with one word a line; ignores text after a tab, empty lines, and lines that begin with `#`.
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

    /// Builds a list of all `words`, also of those that begin with `#`: a job's list has no comments, and an ignored word would have
    /// no protection.
    ///
    /// # Errors
    /// [`VocabularyError::Line`] for an entry that is no single word.
    pub fn from_words(words: &[String]) -> Result<Self, VocabularyError> {
        let word = |(number, word): (usize, &String)| {
            let reason = "one word, of letters and digits";
            let wrong = VocabularyError::Line { file: "word list", line: number + 1, reason };
            let single = !word.contains(char::is_whitespace);
            language::normal(word).filter(|_| single).ok_or(wrong)
        };
        words.iter().enumerate().map(word).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the stems of its words except stop words, with the words.
    fn stems(&self, language: StemmingLanguage) -> BTreeMap<String, BTreeSet<String>> {
        let stops = language.stop_words();
        let mut stems: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for word in self.0.iter().filter(|word| !stops.contains(word.as_str())) {
            stems.entry(language.stem(word)).or_default().insert(word.clone());
        }
        stems
    }

    /// Returns the SHA-256 of its words, sorted, each followed by a line feed.
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
