//! Languages: normalization, stems and stop words.
//!
//! Words are compared in lower case, composed (NFC), without characters other than letters and digits at their ends, by their
//! Snowball stem. Stop words are those of the Stopwords ISO collection. To add a language: add a row in `LANGUAGES`; the
//! collection and the stemmers must both support it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

use super::VocabularyError;

/// Codes of ISO 639-1, sorted, and their stemmers.
const LANGUAGES: [(&str, Algorithm); 18] = [
    ("ar", Algorithm::Arabic),
    ("ca", Algorithm::Catalan),
    ("da", Algorithm::Danish),
    ("de", Algorithm::German),
    ("el", Algorithm::Greek),
    ("en", Algorithm::English),
    ("es", Algorithm::Spanish),
    ("fi", Algorithm::Finnish),
    ("fr", Algorithm::French),
    ("hu", Algorithm::Hungarian),
    ("it", Algorithm::Italian),
    ("nl", Algorithm::Dutch),
    ("no", Algorithm::Norwegian),
    ("pt", Algorithm::Portuguese),
    ("ro", Algorithm::Romanian),
    ("ru", Algorithm::Russian),
    ("sv", Algorithm::Swedish),
    ("tr", Algorithm::Turkish),
];

/// A language, by its two-letter code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StemmingLanguage {
    /// Its row in the table.
    row: usize,
}

impl StemmingLanguage {
    /// Returns the language of a code.
    ///
    /// # Errors
    /// [`VocabularyError::Language`] for an unknown code.
    pub fn new(code: &str) -> Result<Self, VocabularyError> {
        let row = LANGUAGES.iter().position(|(known, _)| *known == code);
        row.map(|row| Self { row }).ok_or_else(|| VocabularyError::Language(code.to_owned()))
    }

    /// Returns its code.
    pub const fn code(self) -> &'static str {
        LANGUAGES[self.row].0
    }

    /// Returns the stem of a [`normal`] word.
    pub fn stem(self, word: &str) -> String {
        Stemmer::create(LANGUAGES[self.row].1).stem(word).into_owned()
    }

    /// Returns the stop words, [`normal`].
    pub fn stop_words(self) -> BTreeSet<String> {
        let listed = stop_words::lookup(self.code()).unwrap_or_default();
        listed.iter().filter_map(|word| normal(word)).collect()
    }
}

impl TryFrom<String> for StemmingLanguage {
    type Error = VocabularyError;
    fn try_from(code: String) -> Result<Self, VocabularyError> {
        Self::new(&code)
    }
}

impl From<StemmingLanguage> for String {
    fn from(language: StemmingLanguage) -> Self {
        language.code().to_owned()
    }
}

/// Normalizes a word for comparison: composed, in lower case, with one kind of apostrophe, without characters other than letters
/// and digits at its ends. `None` if nothing remains.
pub fn normal(word: &str) -> Option<String> {
    let lower: String = word.nfc().collect::<String>().to_lowercase().replace('’', "'");
    let word = lower.trim_matches(|sign: char| !sign.is_alphanumeric());
    (!word.is_empty()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn languages_have_stems_and_stop_words() {
        for (code, _) in LANGUAGES {
            let language = StemmingLanguage::new(code).unwrap();
            assert!(language.stop_words().len() > 50, "{code}");
            assert!(!language.stem("transport").is_empty());
        }
        assert!(LANGUAGES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(StemmingLanguage::new("xx").unwrap_err().to_string().contains("two letters"));
    }

    #[test]
    fn punctuation_case_and_composition_are_ignored() {
        assert_eq!(normal("“Children’s,”").as_deref(), Some("children's"));
        assert_eq!(normal("e\u{301}te\u{301}"), normal("ÉTÉ"));
        assert_eq!(normal("--"), None);
        let english = StemmingLanguage::new("en").unwrap();
        assert_eq!(english.stem("hospitals"), english.stem("hospital"));
        assert!(english.stop_words().contains("the") && english.stop_words().contains("don't"));
    }
}
