//! The cost of a release for another unit than the protected one.
//!
//! A lineage may have limits at several units. Each limit bounds the releases of all jobs about its unit, so a release
//! is charged to every limited unit, or the job is refused (`privacy.md`, 14.1).
//!
//! * **Finer unit, coarser release.** A record belongs to one speaker, and a speaker to one user. A changed record leaves its
//!   speaker in place and changes the speaker's contribution from u to u', clipped alike and sampled by the same coin. The record
//!   therefore loses what replacing the speaker's contribution loses: [`Event::Substituted`], a removal and an addition.
//! * **Coarser unit, finer release.** A speaker with g records loses up to the loss of a group of g. No sampler here
//!   enforces a public g, so there is no price, and the job is refused.
//! * **Words.** Counts of words and contributions of records are no parts of each other: there is no price either way.

use crate::adjacency::PrivacyUnit;
use crate::event::Event;

/// Why a release has no price at another unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// A unit has any number of the protected units.
    #[error(
        "a release that protects each {} says nothing about a whole {}, who may have any number of them",
        noun(*.protected),
        noun(*.limited)
    )]
    Coarser {
        /// The unit that the release protects.
        protected: PrivacyUnit,
        /// The unit that has a limit.
        limited: PrivacyUnit,
    },
    /// No bound for one unit follows from the other.
    #[error(
        "a release that protects {} of recordings and one that protects a {} have no common price",
        plural(*.protected),
        noun(*.limited)
    )]
    Unrelated {
        /// The unit that the release protects.
        protected: PrivacyUnit,
        /// The unit that has a limit.
        limited: PrivacyUnit,
    },
}

/// Returns the event that an account of `limited` is charged for a release of `event`, which protects `protected`.
///
/// # Errors
/// [`TransferError`] when no bound is known: the ledger must refuse a job with such releases while `limited` has a
/// limit.
pub fn event_at(event: &Event, protected: PrivacyUnit, limited: PrivacyUnit) -> Result<Event, TransferError> {
    let (from, to) = match (rank(protected), rank(limited)) {
        _ if protected == limited => return Ok(event.clone()),
        (Some(from), Some(to)) => (from, to),
        _ => return Err(TransferError::Unrelated { protected, limited }),
    };
    if to < from {
        Ok(Event::Substituted { of: Box::new(event.clone()) })
    } else {
        Err(TransferError::Coarser { protected, limited })
    }
}

/// Returns the rank of a unit in the chain record < speaker < user; `None` for a unit outside the chain.
const fn rank(unit: PrivacyUnit) -> Option<u8> {
    match unit {
        PrivacyUnit::Record => Some(0),
        PrivacyUnit::Speaker => Some(1),
        PrivacyUnit::User => Some(2),
        PrivacyUnit::Words => None,
    }
}

const fn noun(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "record",
        PrivacyUnit::Speaker => "speaker",
        PrivacyUnit::User => "user",
        PrivacyUnit::Words => "word",
    }
}

const fn plural(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "records",
        PrivacyUnit::Speaker => "speakers",
        PrivacyUnit::User => "users",
        PrivacyUnit::Words => "words",
    }
}

#[cfg(test)]
mod tests;
