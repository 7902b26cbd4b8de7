//! How far a site's ledger has come, in the site's own words, and the word of a peer that has seen it.
//!
//! A site whose folder was put back to an older copy does not know what it has lost. Its peers keep the newest position that it
//! signed and hand it back, each in a [`LedgerSighting`] of its own. A position that the site's key has not signed is no
//! evidence, so neither a peer nor the server can stop a site by a false one. The signature of the peer shows when the peer
//! knew nothing newer, so a server that withholds sightings, or repeats old ones, is noticed by their age.
//!
//! These documents travel beside [`HeadObservation`](super::HeadObservation), which is unchanged: a worker or a server of an
//! earlier version passes them over.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Document, Signed};
use crate::id::WorkerId;

/// Most bytes of the payload of a position or a sighting.
pub const MOST_SIGHTING_BYTES: usize = 4 << 10;

/// The newest receipt of a site's ledger, signed by the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerPosition {
    /// The worker of the site.
    pub worker: WorkerId,
    /// Number of the newest receipt; 0 before the first.
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
