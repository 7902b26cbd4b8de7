//! The words by which pieces are counted, and their origin.
//!
//! **Price of a choice with noise** ([`Vocabulary::Selected`]). A piece that leaves votes for one candidate: of the candidates among its words, the one of
//! greatest public weight; a fair draw decides among equal weights. Let recordings be neighbours when their pieces that
//! leave, each with its words, differ by at most d pieces, added and removed together. Coupled draws of equal pieces are
//! equal, so the votes of neighbours, as a vector over the candidates, differ by at most d in L1. Discrete Laplace noise of
//! rate ε/d on each candidate's votes makes the vector of noisy votes ε-private (Ghosh, Roughgarden and Sundararajan 2012;
//! Dwork, McSherry, Nissim and Smith 2006). The order of the candidates by noisy votes times public weights, and its first m
//! words, are computed from that vector and public numbers alone, and cost nothing more, for every m. A weight is therefore
//! no part of the sensitivity. If the weights were multiplied before the noise, the same change would move the TF-IDF scores
//! by up to d times the greatest weight.
//!
//! The choice composes with the counts of pieces by the chosen words. For each vocabulary that may be chosen, these counts
//! of neighbours differ by at most d, because each piece counts at most once. So both releases together are
//! (ε + ε', δ')-private, where (ε', δ') is the guarantee of the counts. Every provider learns the chosen words, so the
//! partition among providers does not strengthen ε.

use serde::{Deserialize, Serialize};
use undertone_privacy::Epsilon;

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
    /// Words of a public list of candidates, chosen by the noisy number of pieces that vote for each of them.
    Selected {
        /// m: the number of chosen words, below the number of candidates.
        choose: u32,
        /// ε of the choice: at least 0.01, and below the participant's ε, of which it is a part.
        #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.5))]
        epsilon: Epsilon,
        /// The value of a vote.
        #[serde(default)]
        weight: WordWeight,
        /// A public list: 2 to 20,000 words. The choice depends on the recordings, the list must not.
        candidates: Vec<String>,
        /// A public list in addition; with the candidates at most 20,000 words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        words: Vec<String>,
    },
}

/// The value of a vote for a candidate word, in a choice with noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionWordWeight))]
#[serde(rename_all = "snake_case")]
pub enum WordWeight {
    /// 1 for every word: the most frequent words are chosen.
    #[default]
    Frequency,
    /// The inverse document frequency in the site's public corpus: words that are more frequent than elsewhere are
    /// chosen.
    TfIdf,
}

impl Vocabulary {
    /// Returns the public list, or the public part of it. Candidates are no part of it.
    pub fn listed(&self) -> &[String] {
        match self {
            Self::Public { words } | Self::Data { words, .. } | Self::Selected { words, .. } => words,
        }
    }

    /// Returns the candidates of a choice with noise; none for other vocabularies.
    pub fn candidates(&self) -> &[String] {
        match self {
            Self::Selected { candidates, .. } => candidates,
            Self::Public { .. } | Self::Data { .. } => &[],
        }
    }

    /// Returns the ε of a choice with noise; `None` for other vocabularies.
    pub const fn selection_epsilon(&self) -> Option<Epsilon> {
        match self {
            Self::Selected { epsilon, .. } => Some(*epsilon),
            Self::Public { .. } | Self::Data { .. } => None,
        }
    }

    /// Returns the most words that it can have, which plans use. Forms of one stem become one word, so it may be fewer.
    pub fn most(&self) -> u32 {
        let listed = u32::try_from(self.listed().len()).unwrap_or(u32::MAX);
        match self {
            Self::Public { .. } => listed,
            Self::Data { most, .. } | Self::Selected { choose: most, .. } => {
                listed.saturating_add(*most).min(MOST_WORDS as u32)
            }
        }
    }

    /// Returns whether its content depends on the recordings without noise.
    pub const fn depends_on_data(&self) -> bool {
        matches!(self, Self::Data { .. })
    }
}
