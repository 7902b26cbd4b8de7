//! The words by which pieces are counted, and their origin.

use serde::{Deserialize, Serialize};

/// The most words of a vocabulary. Each costs dummies at every provider.
pub const MOST_WORDS: usize = 20_000;
/// The longest word, characters.
pub const LONGEST_WORD: usize = 64;
/// The languages with a stemmer for comparing words: codes of ISO 639-1, sorted. A site has lists of sensitive words in
/// German and English; for another language its configuration names a list.
pub const LANGUAGES: [&str; 18] =
    ["ar", "ca", "da", "de", "el", "en", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ro", "ru", "sv", "tr"];

/// Where the vocabulary comes from. Everybody who hears the dummies learns it, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionVocabulary))]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
pub enum Vocabulary {
    /// A list that was there before the recordings and tells nothing of them.
    Public {
        /// 1 to 20,000 words, each once; stop words among them are left out.
        words: Vec<String>,
    },
    /// The words that a first transcript uses most, or more than other texts do. That a word is among them tells that somebody
    /// said it, which no noise covers: public data only.
    Data {
        /// m: percent of the different words, the most frequent first; 0 to 100.
        top_percent: f64,
        /// Δ: TF-IDF above which a word is taken, 0 to 100; absent for none by TF-IDF.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        above: Option<f64>,
        /// Most words of the transcript: 1 to 20,000.
        most: u32,
        /// A public list beside them, at most 20,000 words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        words: Vec<String>,
    },
}

impl Vocabulary {
    /// Returns the public list, or the public part of it.
    pub fn listed(&self) -> &[String] {
        match self {
            Self::Public { words } | Self::Data { words, .. } => words,
        }
    }

    /// Returns the most words that it can have, which plans use. Forms of one stem become one word, so it may be fewer.
    pub fn most(&self) -> u32 {
        let listed = u32::try_from(self.listed().len()).unwrap_or(u32::MAX);
        match self {
            Self::Public { .. } => listed,
            Self::Data { most, .. } => listed.saturating_add(*most).min(MOST_WORDS as u32),
        }
    }

    /// Returns whether its content depends on the recordings.
    pub const fn depends_on_data(&self) -> bool {
        matches!(self, Self::Data { .. })
    }
}
