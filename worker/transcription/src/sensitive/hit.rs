//! Ranges of sensitive words, and the reasons that pieces with them stay at the site.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Reasons that a piece stays at the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SensitiveKind {
    /// A number, an ordinal, an amount.
    Number,
    /// A person's name.
    Name,
    /// A place, a people, an institution.
    Place,
    /// On the user's list.
    Listed,
    /// Matched by a pattern of the language or the user.
    Pattern,
    /// A word with low confidence.
    Unsure,
    /// Speech in which the recognizer found no word.
    Unheard,
}

/// A range of sensitive words with its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SensitiveHit {
    /// Indices of the words.
    pub words: Range<usize>,
    /// The reason.
    pub kind: SensitiveKind,
}
