//! The length of a site's ledger as the site states it, and a peer's confirmation that it has seen the statement.
//!
//! A site whose folder was restored from an older copy does not know its lost entries. Its peers keep the newest
//! position that it signed and return it, each in a [`LedgerSighting`] of its own. A position without a signature by
//! the site's key is no evidence, so neither a peer nor the server can stop a site with a false one. The peer's
//! signature shows when the peer knew nothing newer. So the age of sightings exposes a server that withholds them or
//! repeats old ones.
//!
//! These documents travel beside [`HeadObservation`](super::HeadObservation), which is unchanged: a worker or a server
//! of an earlier version ignores them.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Document, Signed};
use crate::id::WorkerId;

/// The most bytes of the payload of a position or a sighting.
pub const MOST_SIGHTING_BYTES: usize = 4 << 10;

/// The newest receipt of a site's ledger, signed by the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerPosition {
    /// The worker of the site.
    pub worker: WorkerId,
    /// The number of the newest receipt; 0 before the first.
    pub receipts: u64,
    /// Its digest; empty before the first.
    pub digest: String,
    /// The site's clock when it signed.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for LedgerPosition {
    const DOMAIN: &'static str = "undertone/ledger-position/1";
}

/// The newest position of a site that a peer has seen, signed by the peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerSighting {
    /// The worker of the peer.
    pub observer: WorkerId,
    /// The worker whose ledger it is.
    pub subject: WorkerId,
    /// The [`LedgerPosition`], signed by the subject.
    pub position: Signed,
    /// The peer's clock when it signed.
    #[serde(with = "time::serde::rfc3339")]
    pub observed_at: OffsetDateTime,
}

impl Document for LedgerSighting {
    const DOMAIN: &'static str = "undertone/ledger-sighting/1";
}
