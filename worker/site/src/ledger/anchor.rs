//! The ledger's anchor: the number and digest of its newest receipt, in a file outside of the site's folder.
//!
//! A ledger that was replaced by an older copy (a backup, a snapshot of the machine) has fewer receipts than its
//! anchor. Nothing leaves then until the missing receipts are imported. The server can provide them; a server that
//! withholds them cannot make the site spend its budget twice. The anchor protects only if restoring the ledger does
//! not also restore the anchor: keep it on another disk or on another machine's file system.
//!
//! The anchor follows the ledger: it is written durably after a payment is in the ledger and before anything leaves by
//! it. After a crash in between, the ledger is ahead of the anchor by one receipt, and the next check advances the
//! anchor.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::id::WorkerId;

use crate::books::ChainHead;
use crate::folder::{FolderError, write_durably};

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchoredHead {
    /// The ledger's worker.
    pub worker: WorkerId,
    /// Number of the newest receipt; 0 before the first.
    pub receipts: u64,
    /// Digest of the newest receipt; empty before the first.
    pub digest: String,
}

/// An anchor of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerAnchor {
    path: PathBuf,
    worker: WorkerId,
}

/// The reason why an anchor does not let anything leave.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file does not exist.
    #[error(
        "the ledger's anchor {0} is missing: put its disk back, or begin it anew with `undertone-worker ledger anchor begin` after you have looked why"
    )]
    Missing(PathBuf),
    /// The file already exists.
    #[error("the anchor {0} is there already: it is not begun a second time")]
    Exists(PathBuf),
    /// The file is not an anchor.
    #[error("{path} is not an anchor of a ledger ({problem}): put it back from its disk's backup")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The defect.
        problem: String,
    },
    /// The file is the anchor of another worker's ledger.
    #[error("{path} is the anchor of worker {found}: name another file in config.toml (`anchor`)")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The worker in the file.
        found: WorkerId,
    },
    /// The ledger lacks receipts.
    #[error(
        "the ledger has {found} receipts and its anchor says {anchored}: it is an older copy. Put the newest copy back, or let the server show the missing receipts; nothing leaves until they are there"
    )]
    Older {
        /// The number of receipts in the anchor.
        anchored: u64,
        /// The number of receipts in the ledger.
        found: u64,
    },
    /// The ledger has another receipt under the anchored number.
    #[error(
        "receipt {0} of the ledger is another than its anchor says: the ledger has forked, two copies of it were in use"
    )]
    Forked(u64),
}

impl LedgerAnchor {
    /// Makes the anchor of a worker's ledger. Nothing is read yet.
    pub const fn new(path: PathBuf, worker: WorkerId) -> Self {
        Self { path, worker }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file for the first time.
    ///
    /// # Errors
    /// [`AnchorError::Exists`] when the file exists.
    pub fn begin(&self, head: &ChainHead) -> Result<AnchoredHead, AnchorError> {
        if self.path.exists() {
            return Err(AnchorError::Exists(self.path.clone()));
        }
        self.write(head)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`AnchorError`] when it is missing, not an anchor, or of another worker.
    pub fn read(&self) -> Result<AnchoredHead, AnchorError> {
        if !self.path.exists() {
            return Err(AnchorError::Missing(self.path.clone()));
        }
        let text = fs::read_to_string(&self.path).map_err(FolderError::io("read", &self.path))?;
        let anchored: AnchoredHead = serde_json::from_str(&text)
            .map_err(|error| AnchorError::Malformed { path: self.path.clone(), problem: error.to_string() })?;
        if anchored.worker == self.worker {
            Ok(anchored)
        } else {
            Err(AnchorError::Foreign { path: self.path.clone(), found: anchored.worker })
        }
    }

    /// Compares the ledger's newest receipt `head` with the anchor and returns the anchor. `digest` returns the digest of a
    /// receipt of the ledger by number.
    ///
    /// # Errors
    /// [`AnchorError::Older`] and [`AnchorError::Forked`] when the ledger does not continue the anchor.
    pub fn check<E: From<AnchorError>>(
        &self,
        head: &ChainHead,
        digest: impl FnOnce(u64) -> Result<Option<String>, E>,
    ) -> Result<AnchoredHead, E> {
        let anchored = self.read()?;
        if anchored.receipts > head.sequence {
            return Err(AnchorError::Older { anchored: anchored.receipts, found: head.sequence }.into());
        }
        if anchored.receipts > 0 && digest(anchored.receipts)?.as_deref() != Some(&anchored.digest) {
            return Err(AnchorError::Forked(anchored.receipts).into());
        }
        Ok(anchored)
    }

    /// Compares as [`Self::check`] does and lets the anchor follow the ledger.
    ///
    /// # Errors
    /// The errors of [`Self::check`], and those of writing the file.
    pub fn follow<E: From<AnchorError>>(
        &self,
        head: &ChainHead,
        digest: impl FnOnce(u64) -> Result<Option<String>, E>,
    ) -> Result<(), E> {
        let anchored = self.check(head, digest)?;
        if anchored.receipts < head.sequence {
            self.write(head)?;
        }
        Ok(())
    }

    fn write(&self, head: &ChainHead) -> Result<AnchoredHead, AnchorError> {
        let digest = if head.sequence == 0 { String::new() } else { head.hash.clone() };
        let anchored = AnchoredHead { worker: self.worker, receipts: head.sequence, digest };
        let text = serde_json::to_string(&anchored)
            .map_err(|error| AnchorError::Malformed { path: self.path.clone(), problem: error.to_string() })?;
        write_durably(&self.path, format!("{text}\n").as_bytes())?;
        Ok(anchored)
    }
}

#[cfg(test)]
mod tests;
