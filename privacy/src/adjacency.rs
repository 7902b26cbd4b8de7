//! Who is protected, and against which change: the two halves of "neighbouring".

use serde::{Deserialize, Serialize};

/// What one person-sized (or recording-sized) thing is in a dataset. Guarantees for different units never mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivacyUnit {
    /// One record: an utterance, a row of a log.
    Record,
    /// Everything that one speaker said.
    Speaker,
    /// Everything that one user of a query log asked.
    User,
    /// Words of recordings: any d of them, added and removed together, where d is the `distance` of each event that is charged; a
    /// word said otherwise is one removed and one added. What is promised of the words is promised for the least d among an
    /// account's events. Not everything that a recording or a speaker says.
    Words,
}

/// The neighbouring relation of a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adjacency {
    /// One unit added or removed.
    #[default]
    AddRemove,
    /// One unit's contribution replaced by the neutral one; the size of the dataset is public.
    ZeroOut,
    /// One unit replaced by another: one removal and one addition.
    ReplaceOne,
}
