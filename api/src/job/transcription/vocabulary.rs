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

/// The source of the vocabulary. Every recipient of the dummies learns all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionVocabulary))]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
pub enum Vocabulary {
    /// A list that does not depend on the recordings and reveals nothing about them.
    Public {
        /// 1 to 20,000 words, each once. Stop words among them are ignored.
        words: Vec<String>,
    },
    /// The words that are most frequent in a first transcript, or more frequent there than in other texts. The presence
    /// of a word reveals that it was spoken, which no noise covers: public data only.
    Data {
        /// m: the percentage of the distinct words, the most frequent first; 0 to 100.
        top_percent: f64,
        /// Δ: the least TF-IDF of a chosen word, 0 to 100; absent to choose none by TF-IDF.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        above: Option<f64>,
        /// Most words of the transcript: 1 to 20,000.
        most: u32,
        /// A public list in addition, at most 20,000 words.
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
