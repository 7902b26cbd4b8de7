//! Units of protection and neighbouring relations: the two halves of "neighbouring".

use serde::{Deserialize, Serialize};

/// The protected unit of a dataset. [`crate::transfer::event_at`] determines the cost of a release for another unit
/// than the protected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivacyUnit {
    /// One record: an utterance, a row of a log.
    Record,
    /// All recordings of one speaker.
    Speaker,
    /// All queries of one user.
    User,
    /// Words of recordings: any d of them, added and removed together, where d is the `distance` of each charged event.
    /// A changed word is one removal and one addition. The guarantee of an account holds for the least d among its
    /// events. It does not cover the whole content of a recording, or of a speaker's recordings.
    Words,
}

/// The neighbouring relation of a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adjacency {
    /// One unit added or removed.
    #[default]
    AddRemove,
    /// One unit's contribution replaced by the neutral one; the number of units is public.
    ZeroOut,
    /// One unit replaced by another: one removal and one addition.
    ReplaceOne,
}

impl Adjacency {
    /// Returns the relation that names the account of a charge.
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

    /// Returns true if charges under both relations go to one account.
    #[must_use]
    pub fn shares_account(self, other: Self) -> bool {
        self.account() == other.account()
    }
}
