//! Who is protected, and against which change: the two halves of "neighbouring".

use serde::{Deserialize, Serialize};

/// What one person-sized (or recording-sized) thing is in a dataset. What a release that protects one unit costs another is told
/// by [`crate::transfer::event_at`].
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
    /// One unit's contribution replaced by the neutral one; how many units there are is public.
    ZeroOut,
    /// One unit replaced by another: one removal and one addition.
    ReplaceOne,
}

impl Adjacency {
    /// Returns the relation under whose name the account of a charge is kept.
    ///
    /// Add-remove and zero-out charges share one account. Every mechanism here is a function of the multiset of contributions, in
    /// which an emptied unit is an absent one, so both relations compare the same pairs of output distributions and every event
    /// costs the same under both. The sum of both kinds of charges therefore bounds the loss under either relation; two accounts
    /// would grant the budget twice.
    #[must_use]
    pub const fn account(self) -> Self {
        match self {
            Self::AddRemove | Self::ZeroOut => Self::AddRemove,
            Self::ReplaceOne => Self::ReplaceOne,
        }
    }

    /// Returns whether charges under both relations go to one account.
    #[must_use]
    pub fn shares_account(self, other: Self) -> bool {
        self.account() == other.account()
    }
}
