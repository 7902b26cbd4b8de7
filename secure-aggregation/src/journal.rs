//! The durable record of a round at a site.

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::message::{Advertisement, SealedShares};
use crate::site_set::SiteSet;

/// The decisions of a site in one round, and the secret from which its messages derive.
///
/// The record is secret while the round lasts. For 50 sites it grows to about 12 kB of content, and four times as much as
/// JSON. It must be stored so that a crash cannot lose it, and must not be restored from a backup.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// The digest of the round and the form of its vectors.
    pub(crate) context: [u8; 32],
    /// The random secret of the round; `None` after its end.
    pub(crate) secret: Option<[u8; 32]>,
    /// The accepted advertisements.
    pub(crate) advertisements: Vec<Advertisement>,
    /// The sealed shares of the other members.
    pub(crate) shares: Vec<SealedShares>,
    /// The digest of the masked vector.
    pub(crate) vector: Option<[u8; 32]>,
    /// The signed set of survivors.
    pub(crate) survivors: Option<SiteSet>,
    /// Whether shares were revealed for the signed set.
    pub(crate) revealed: bool,
}

impl RoundRecord {
    /// Returns the record of a round that begins.
    pub(crate) const fn new(context: [u8; 32], secret: [u8; 32]) -> Self {
        Self {
            context,
            secret: Some(secret),
            advertisements: Vec::new(),
            shares: Vec::new(),
            vector: None,
            survivors: None,
            revealed: false,
        }
    }

    /// Returns whether the round has ended here.
    pub const fn is_closed(&self) -> bool {
        self.secret.is_none()
    }

    /// Returns the signed set of survivors.
    pub const fn survivors(&self) -> Option<SiteSet> {
        self.survivors
    }

    /// Returns whether shares may have been revealed.
    pub const fn is_revealed(&self) -> bool {
        self.revealed
    }
}

impl std::fmt::Debug for RoundRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoundRecord")
            .field("is_closed", &self.is_closed())
            .field("advertisements", &self.advertisements.len())
            .field("shares", &self.shares.len())
            .field("is_masked", &self.vector.is_some())
            .field("survivors", &self.survivors)
            .field("revealed", &self.revealed)
            .finish_non_exhaustive()
    }
}

impl Drop for RoundRecord {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

/// The durable store of records. The crate stores a record before it returns the message that depends on it. The caller
/// makes sure that one process at a time has a round open.
pub trait RoundJournal {
    /// Errors of the store.
    type Error: std::error::Error + 'static;

    /// Returns the last stored record of the round with this [`slot`](crate::round::RoundContext::slot).
    ///
    /// # Errors
    /// If the store cannot be read. An unreadable record is an error, not `None`.
    fn load(&mut self, slot: &[u8; 32]) -> Result<Option<RoundRecord>, Self::Error>;

    /// Stores a record in place of the round's former one, and returns when a crash can no longer lose it. A closed
    /// record stays as long as the job can offer the round.
    ///
    /// # Errors
    /// If the record may not be durable.
    fn store(&mut self, slot: &[u8; 32], record: &RoundRecord) -> Result<(), Self::Error>;
}
