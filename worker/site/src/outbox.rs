//! Finished vectors and pools of questions that are to be sent, with their receipts.
//!
//! One receipt, one set of bytes (`privacy.md`, 14.6). The bytes of a release are durable on disk first
//! ([`ReleaseOutbox::store`]). Then one transaction writes the receipt, the entry of the ledger and the reference to the
//! bytes: a row of the table `vector` (`refer`). Only referenced bytes are ever sent, and always as the same bits.
//! After a crash or a restore there are the following cases ([`ReleaseProgress`]):
//!
//! | row | file | meaning |
//! |---|---|---|
//! | none, and no receipt | none | nothing was made |
//! | none, and no receipt | complete | not paid, or paid in a ledger since replaced by an older copy: paid and sent |
//! | with its digest | the same | the bits may be sent, repeatedly |
//! | with its digest | missing | paid and lost: another payment, or nothing |
//! | lost | any | paid by an imported receipt: never sent again |
//!
//! Files lie in the job's work folder. They are removed when the server has them and the job has ended; the oldest
//! accepted ones of long jobs are removed earlier.

mod file;
mod receipts;

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::{Receipt, ReleaseTick};

use self::file::ReleaseFile;
pub use self::receipts::{acknowledge, receipts_to_send};
use super::clearance::DepartureProof;
use super::folder::FolderError;
use super::store::{Store, StoreError, sql};
use super::witness;

/// The number of accepted vectors that are kept for a running job, in case the server loses its last ones.
const KEPT: u32 = 16;

/// Reasons why a vector cannot be stored or found.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The folder failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing is stored for the round.
    #[error("no finished vector of {series}/{round} is stored")]
    Missing {
        /// The series.
        series: String,
        /// The round.
        round: u32,
    },
    /// The stored bytes have changed.
    #[error("{0} is not what was written: the disk is failing; the round must be paid again")]
    Damaged(PathBuf),
    /// The server has not countersigned the payment.
    #[error("the server has not countersigned the payment of {series}/{round}, so nothing of it may leave")]
    NotCountersigned {
        /// The series.
        series: String,
        /// The round.
        round: u32,
    },
}

/// A release whose bytes are durable at this site. It is not paid yet and cannot be sent; the ledger pays for it and
/// refers to its bytes in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRelease {
    job: JobId,
    dataset: DatasetId,
    series: String,
    round: u32,
    digest: String,
    length: u64,
    /// The tick of the part's release clock at which it is paid.
    tick: Option<ReleaseTick>,
}

impl StoredRelease {
    /// Sets the tick of the part's release clock at which it is paid.
    #[must_use]
    pub fn with_tick(self, tick: Option<ReleaseTick>) -> Self {
        Self { tick, ..self }
    }

    /// Returns the tick of the part's release clock at which it is paid; `None` without a clock.
    pub const fn tick(&self) -> Option<ReleaseTick> {
        self.tick
    }

    /// Returns the job.
    pub const fn job(&self) -> JobId {
        self.job
    }

    /// Returns the dataset.
    pub const fn dataset(&self) -> DatasetId {
        self.dataset
    }

    /// Returns the series.
    pub fn series(&self) -> &str {
        &self.series
    }

    /// Returns the round.
    pub const fn round(&self) -> u32 {
        self.round
    }

    /// Returns the SHA-256 of the bytes, hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Makes a release without bytes, for tests of the ledger.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(job: JobId, dataset: DatasetId, series: &str, round: u32) -> Self {
        let digest = hex::encode(Sha256::digest([]));
        Self { job, dataset, series: series.to_owned(), round, digest, length: 0, tick: None }
    }
}

/// Sounds for recipients other than the server, stored durably in a folder of their own and never changed. Permission
/// for them to leave is permission for their digest alone.
pub trait SealedBatch {
    /// Returns the digest of the whole content, hexadecimal.
    fn digest(&self) -> &str;

    /// Returns the number of sounds.
    fn sounds(&self) -> u64;
}

/// One participant's part in a job, with its folder.
#[derive(Debug, Clone)]
pub struct ReleaseOutbox {
    job: JobId,
    dataset: DatasetId,
    folder: PathBuf,
}

/// The progress of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseProgress {
    /// Nothing is stored.
    Nothing,
    /// The bytes are stored, and this ledger has no payment for them.
    Unpaid(StoredRelease),
    /// The vector is stored and paid; the server does not have it.
    Stored,
    /// The release is paid, and its bytes are not on this disk.
    Gone,
    /// The server has it.
    Accepted,
    /// An imported receipt pays for it. Its bytes can never be sent again.
    Lost,
}

/// A vector or a pool ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVector {
    /// The bytes in the form of the wire (`vector` and `question` of the protocol).
    pub bytes: Vec<u8>,
    /// The number of values or questions in it.
    pub length: u64,
    /// SHA-256 of the bytes, hex.
    pub digest: String,
    /// The number of the receipt that pays for it; `None` for public data.
    pub receipt: Option<u64>,
}

/// A row of the table `vector`.
struct VectorReference {
    digest: String,
    length: u64,
    receipt: Option<u64>,
    accepted: bool,
    lost: bool,
}

impl ReleaseOutbox {
    /// Makes the outbox of one participant, in its work folder.
    pub fn new(job: JobId, dataset: DatasetId, work: &Path) -> Self {
        Self { job, dataset, folder: work.join("outbox") }
    }

    fn file(&self, series: &str, round: u32) -> PathBuf {
        self.folder.join(format!("{series}-{round}.vector"))
    }

    fn make_release(&self, series: &str, round: u32, digest: String, length: u64) -> StoredRelease {
        StoredRelease {
            job: self.job,
            dataset: self.dataset,
            series: series.to_owned(),
            round,
            digest,
            length,
            tick: None,
        }
    }

    /// Stores a finished vector of `length` numbers, or a pool of as many questions, in the form of the wire; on disk
    /// when this returns. It may not be sent before it is paid.
    ///
    /// # Errors
    /// [`OutboxError`] when the disk fails.
    pub fn store(&self, series: &str, round: u32, bytes: &[u8], length: u64) -> Result<StoredRelease, OutboxError> {
        let digest = file::write(&self.file(series, round), bytes, length)?;
        Ok(self.make_release(series, round, digest, length))
    }

    /// Returns a sealed batch of sounds as a release to be paid. The batch is already durable in its own folder.
    pub fn batch(&self, series: &str, round: u32, batch: &impl SealedBatch) -> StoredRelease {
        self.make_release(series, round, batch_digest(batch), batch.sounds())
    }

    fn reference(&self, store: &Store, series: &str, round: u32) -> Result<Option<VectorReference>, StoreError> {
        store.read(|db| {
            db.query_row(
                "SELECT digest, length, receipt, accepted, lost FROM vector
                 WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4",
                params![self.job.to_string(), self.dataset.to_string(), series, round],
                |row| {
                    Ok(VectorReference {
                        digest: row.get(0)?,
                        length: row.get::<_, i64>(1)? as u64,
                        receipt: row.get::<_, Option<i64>>(2)?.map(|number| number as u64),
                        accepted: row.get(3)?,
                        lost: row.get(4)?,
                    })
                },
            )
            .optional()
            .map_err(StoreError::sqlite("look for a vector"))
        })
    }

    /// Returns the progress of a round. A release that may have left counts as lost.
    ///
    /// # Errors
    /// [`OutboxError`] when the database or the disk fails.
    pub fn state(&self, store: &Store, series: &str, round: u32) -> Result<ReleaseProgress, OutboxError> {
        let reference = self.reference(store, series, round)?;
        match &reference {
            Some(VectorReference { lost: true, .. }) => return Ok(ReleaseProgress::Lost),
            Some(VectorReference { accepted: true, .. }) => return Ok(ReleaseProgress::Accepted),
            None if store.read(|db| is_paid(db, (self.job, self.dataset, series, round)))? => {
                return Ok(ReleaseProgress::Lost);
            }
            _ => {}
        }
        Ok(match (file::read(&self.file(series, round))?, reference) {
            (None, None) => ReleaseProgress::Nothing,
            (Some(content), Some(reference)) if content.digest == reference.digest => ReleaseProgress::Stored,
            // The file is newer than the row's bytes. It is complete, so only these bytes may be paid next.
            (Some(ReleaseFile { digest, length: Some(length), .. }), _) => {
                ReleaseProgress::Unpaid(self.make_release(series, round, digest, length))
            }
            // The file is damaged, or from an older worker that paid before it wrote. The release may have left.
            (Some(_), None) => ReleaseProgress::Lost,
            (_, Some(_)) => ReleaseProgress::Gone,
        })
    }

    /// Returns the progress of a sealed batch made for a round. The batch has its own folder outside the outbox.
    ///
    /// # Errors
    /// [`OutboxError`] when the database fails.
    pub fn batch_state(&self, store: &Store, release: &StoredRelease) -> Result<ReleaseProgress, OutboxError> {
        let StoredRelease { series, round, .. } = release;
        Ok(match self.reference(store, series, *round)? {
            None if store.read(|db| is_paid(db, (self.job, self.dataset, series, *round)))? => ReleaseProgress::Lost,
            None => ReleaseProgress::Unpaid(release.clone()),
            Some(reference) if reference.lost => ReleaseProgress::Lost,
            Some(reference) if reference.digest == release.digest => ReleaseProgress::Stored,
            Some(_) => ReleaseProgress::Gone,
        })
    }

    /// Returns the receipt of a round whose reference is on disk; `None` for public data.
    ///
    /// # Errors
    /// [`OutboxError::Missing`] when there is no reference.
    pub fn receipt(&self, store: &Store, series: &str, round: u32) -> Result<Option<u64>, OutboxError> {
        let missing = || OutboxError::Missing { series: series.to_owned(), round };
        Ok(self.reference(store, series, round)?.ok_or_else(missing)?.receipt)
    }

    /// Returns the stored vector of a round, after checking its digest and the server's countersignature of its
    /// payment.
    ///
    /// # Errors
    /// [`OutboxError::Missing`] when none is stored, [`OutboxError::Damaged`] when the bytes have changed,
    /// [`OutboxError::NotCountersigned`] when the server has not countersigned the payment yet.
    pub fn parcel(&self, store: &Store, series: &str, round: u32) -> Result<StoredVector, OutboxError> {
        let missing = || OutboxError::Missing { series: series.to_owned(), round };
        let reference = self.reference(store, series, round)?.filter(|found| !found.lost).ok_or_else(missing)?;
        let VectorReference { digest, length, receipt, .. } = reference;
        let path = self.file(series, round);
        let content = file::read(&path)?.ok_or_else(missing)?;
        if content.digest != digest {
            return Err(OutboxError::Damaged(path));
        }
        let parcel = StoredVector { bytes: content.bytes, length, digest, receipt };
        self.check_countersigned(store, series, round, parcel.receipt)?;
        Ok(parcel)
    }

    /// Checks that the server has countersigned a payment.
    ///
    /// # Errors
    /// [`OutboxError::NotCountersigned`] when it has not.
    pub fn check_countersigned(
        &self,
        store: &Store,
        series: &str,
        round: u32,
        receipt: Option<u64>,
    ) -> Result<(), OutboxError> {
        match receipt {
            Some(number) if !witness::is_countersigned(store, number)? => {
                Err(OutboxError::NotCountersigned { series: series.to_owned(), round })
            }
            _ => Ok(()),
        }
    }

    /// Returns the permission for a sealed batch to leave for recipients other than the server.
    ///
    /// # Errors
    /// [`OutboxError::Missing`] when this batch is not paid, [`OutboxError::NotCountersigned`] when the server has not
    /// countersigned the payment.
    pub fn departure(
        &self,
        store: &Store,
        series: &str,
        round: u32,
        batch: &impl SealedBatch,
    ) -> Result<DepartureProof, OutboxError> {
        let missing = || OutboxError::Missing { series: series.to_owned(), round };
        let reference = self.reference(store, series, round)?;
        let payment =
            reference.filter(|found| !found.lost && found.digest == batch_digest(batch)).ok_or_else(missing)?;
        self.check_countersigned(store, series, round, payment.receipt)?;
        Ok(DepartureProof::for_payment(batch.digest().to_owned()))
    }

    /// Records that the server has a round's vector and these receipts.
    ///
    /// # Errors
    /// [`OutboxError`] when the database fails.
    pub fn mark_accepted(&self, store: &Store, series: &str, round: u32, receipts: &[u64]) -> Result<(), OutboxError> {
        store.write(|tx| {
            for receipt in receipts {
                tx.execute("INSERT INTO acknowledged (receipt) VALUES (?1) ON CONFLICT DO NOTHING", [sql(*receipt)])
                    .map_err(StoreError::sqlite("note a receipt"))?;
            }
            tx.execute(
                "UPDATE vector SET accepted = 1 WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4",
                params![self.job.to_string(), self.dataset.to_string(), series, round],
            )
            .map(|_| ())
            .map_err(StoreError::sqlite("note that a vector arrived"))
        })?;
        if round > KEPT {
            // The file may be missing already.
            let _ = fs::remove_file(self.file(series, round - KEPT));
        }
        Ok(())
    }

    /// Removes every stored vector, because the job has ended.
    ///
    /// # Errors
    /// [`OutboxError::Folder`] when the file system returns an error.
    pub fn clear(&self) -> Result<(), OutboxError> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FolderError::io("remove", &self.folder)(error).into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the digest in the row of a sealed batch: the digest of the batch's digest.
fn batch_digest(batch: &impl SealedBatch) -> String {
    hex::encode(Sha256::digest(batch.digest().as_bytes()))
}

/// Returns whether a receipt of this ledger pays for a round.
fn is_paid(db: &Connection, (job, dataset, series, round): (JobId, DatasetId, &str, u32)) -> Result<bool, StoreError> {
    db.query_row(
        "SELECT EXISTS (SELECT 1 FROM receipt WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4)",
        params![job.to_string(), dataset.to_string(), series, round],
        |row| row.get(0),
    )
    .map_err(StoreError::sqlite("look for a payment"))
}

/// Writes the reference to a stored release, in the transaction that pays for it by `receipt` (`None` for public data).
/// Returns false when the round was released already, or was paid by a receipt whose bytes are lost; nothing may be
/// paid then.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(crate) fn refer(tx: &Transaction<'_>, release: &StoredRelease, receipt: Option<u64>) -> Result<bool, StoreError> {
    let StoredRelease { job, dataset, series, round, digest, length, .. } = release;
    let written = tx.execute(
        "INSERT INTO vector (job, dataset, series, round, digest, length, receipt)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
         WHERE EXISTS (SELECT 1 FROM vector WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4)
             OR NOT EXISTS (SELECT 1 FROM receipt
                 WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4 AND sequence < ?7)
         ON CONFLICT (job, dataset, series, round) DO UPDATE
         SET digest = excluded.digest, length = excluded.length, receipt = excluded.receipt
         WHERE accepted = 0 AND lost = 0",
        params![job.to_string(), dataset.to_string(), series, round, digest, sql(*length), receipt.map(sql)],
    );
    written.map(|rows| rows == 1).map_err(StoreError::sqlite("refer to a release"))
}

/// Writes the reference "bytes lost" for an imported receipt: nothing can be sent by it.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(crate) fn lose(tx: &Transaction<'_>, receipt: &Receipt) -> Result<(), StoreError> {
    let Receipt { job, dataset, series, round, sequence, .. } = receipt;
    tx.execute(
        "INSERT INTO vector (job, dataset, series, round, digest, length, receipt, accepted, lost)
         VALUES (?1, ?2, ?3, ?4, '', 0, ?5, 1, 1)
         ON CONFLICT (job, dataset, series, round) DO UPDATE
         SET digest = '', length = 0, receipt = excluded.receipt, accepted = 1, lost = 1",
        params![job.to_string(), dataset.to_string(), series, round, sql(*sequence)],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("note that a release is lost"))
}

#[cfg(test)]
mod tests;
