//! Finished vectors and pools of questions on their way out, and the receipts that go with them.
//!
//! A vector (and a pool, of which the same is said) is on disk before the first bit of it leaves, so after a crash the identical bits are sent again without a
//! new charge: noise or a sample drawn anew would be a new release. Files lie in the job's work folder and go when the server has
//! them and the job is over; of long jobs the oldest accepted ones go earlier.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::Signed;

use super::folder::{FolderError, write_durably};
use super::store::{Store, StoreError, sql};

/// How many accepted vectors of a running job are kept, for the case that the server loses its last ones.
const KEPT: u32 = 16;

/// Why a vector cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The folder refuses.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The database refuses.
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
    /// What is stored is not what was written.
    #[error("{0} is not what was written: the disk is failing; the round must be paid again")]
    Damaged(PathBuf),
}

/// One participant's part in a job, and where its files lie.
#[derive(Debug, Clone)]
pub struct Outbox {
    job: JobId,
    dataset: DatasetId,
    folder: PathBuf,
}

/// How far a round got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing is stored.
    Nothing,
    /// The vector is stored, the server does not have it.
    Stored,
    /// The server has it.
    Accepted,
}

/// A vector or a pool ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// As it travels ([`undertone_proto::vector`], [`undertone_proto::question`]).
    pub bytes: Vec<u8>,
    /// Numbers, or questions, in it.
    pub length: u64,
    /// SHA-256 of the bytes, hex.
    pub digest: String,
    /// The number of the receipt that pays for it; `None` for public data.
    pub receipt: Option<u64>,
}

impl Outbox {
    /// The outbox of one participant, in its work folder.
    pub fn new(job: JobId, dataset: DatasetId, work: &Path) -> Self {
        Self { job, dataset, folder: work.join("outbox") }
    }

    fn file(&self, series: &str, round: u32) -> PathBuf {
        self.folder.join(format!("{series}-{round}.vector"))
    }

    /// Keeps a finished vector of `length` numbers, or a pool of as many questions, as it will travel; on disk when this returns.
    /// Gives the SHA-256 of its bytes, hex.
    ///
    /// # Errors
    /// [`OutboxError`] when the disk refuses. Nothing may be sent then.
    pub fn keep(
        &self,
        store: &Store,
        series: &str,
        round: u32,
        bytes: &[u8],
        length: u64,
        receipt: Option<u64>,
    ) -> Result<String, OutboxError> {
        let digest = hex::encode(Sha256::digest(bytes));
        write_durably(&self.file(series, round), bytes)?;
        // The row comes last: without it the file counts for nothing, and the round is paid again.
        store.write(|tx| {
            tx.execute(
                "INSERT INTO vector (job, dataset, series, round, digest, length, receipt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (job, dataset, series, round) DO UPDATE
                 SET digest = excluded.digest, length = excluded.length, receipt = excluded.receipt
                 WHERE accepted = 0",
                params![
                    self.job.to_string(),
                    self.dataset.to_string(),
                    series,
                    round,
                    digest,
                    sql(length),
                    receipt.map(sql)
                ],
            )
            .map(|_| ())
            .map_err(StoreError::sqlite("note a vector"))
        })?;
        Ok(digest)
    }

    /// How far a round got.
    ///
    /// # Errors
    /// [`OutboxError`] when the database fails.
    pub fn state(&self, store: &Store, series: &str, round: u32) -> Result<Kept, OutboxError> {
        let row: Option<(String, bool)> = store.read(|db| {
            db.query_row(
                "SELECT digest, accepted FROM vector WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4",
                params![self.job.to_string(), self.dataset.to_string(), series, round],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(StoreError::sqlite("look for a vector"))
        })?;
        Ok(match row {
            None => Kept::Nothing,
            Some((_, true)) => Kept::Accepted,
            // A crash between file and row, or a failing disk: only bits that are certainly the same may be sent again.
            Some((digest, false)) => match fs::read(self.file(series, round)) {
                Ok(bytes) if hex::encode(Sha256::digest(&bytes)) == digest => Kept::Stored,
                _ => Kept::Nothing,
            },
        })
    }

    /// The stored vector of a round, its digest checked.
    ///
    /// # Errors
    /// [`OutboxError::Missing`] when none is stored, [`OutboxError::Damaged`] when it is not what was written.
    pub fn parcel(&self, store: &Store, series: &str, round: u32) -> Result<Parcel, OutboxError> {
        let row: Option<(String, i64, Option<i64>)> = store.read(|db| {
            db.query_row(
                "SELECT digest, length, receipt FROM vector WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4",
                params![self.job.to_string(), self.dataset.to_string(), series, round],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()
            .map_err(StoreError::sqlite("look for a vector"))
        })?;
        let (digest, length, receipt) = row.ok_or_else(|| OutboxError::Missing { series: series.to_owned(), round })?;
        let path = self.file(series, round);
        let bytes = fs::read(&path).map_err(FolderError::io("read", &path))?;
        if hex::encode(Sha256::digest(&bytes)) != digest {
            return Err(OutboxError::Damaged(path));
        }
        Ok(Parcel { bytes, length: length as u64, digest, receipt: receipt.map(|number| number as u64) })
    }

    /// Notes that the server has a round's vector, and with it these receipts.
    ///
    /// # Errors
    /// [`OutboxError`] when the database fails.
    pub fn accepted(&self, store: &Store, series: &str, round: u32, receipts: &[u64]) -> Result<(), OutboxError> {
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
            // Gone already is as good.
            let _ = fs::remove_file(self.file(series, round - KEPT));
        }
        Ok(())
    }

    /// Removes every stored vector: the job is over.
    ///
    /// # Errors
    /// [`OutboxError::Folder`] when the file system refuses.
    pub fn clear(&self) -> Result<(), OutboxError> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FolderError::io("remove", &self.folder)(error).into())
            }
            _ => Ok(()),
        }
    }
}

/// The receipts that the server does not have, oldest first, up to number `up_to`; with `paying`, that one too and last,
/// even if the server has it.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn receipts_to_send(store: &Store, up_to: u64, paying: Option<u64>) -> Result<Vec<(u64, Signed)>, StoreError> {
    store.read(|db| {
        let mut statement = db
            .prepare(
                "SELECT sequence, payload, signature FROM receipt
                 WHERE sequence <= ?1 AND (sequence = ?2 OR sequence NOT IN (SELECT receipt FROM acknowledged)
                     OR sequence IN (SELECT receipt FROM lacking WHERE epoch = (SELECT COUNT(*) FROM cleared)
                         EXCEPT SELECT receipt FROM proof WHERE epoch = (SELECT COUNT(*) FROM cleared)))
                 ORDER BY sequence",
            )
            .map_err(StoreError::sqlite("read receipts"))?;
        let rows = statement
            .query_map(params![sql(up_to), paying.map(sql)], |row| {
                Ok((row.get::<_, i64>(0)? as u64, Signed { payload: row.get(1)?, signature: row.get(2)? }))
            })
            .map_err(StoreError::sqlite("read receipts"))?;
        rows.collect::<Result<_, _>>().map_err(StoreError::sqlite("read receipts"))
    })
}

/// Notes that the server has these receipts.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn acknowledge(store: &Store, receipts: &[u64]) -> Result<(), StoreError> {
    store.write(|tx| {
        for receipt in receipts {
            tx.execute("INSERT INTO acknowledged (receipt) VALUES (?1) ON CONFLICT DO NOTHING", [sql(*receipt)])
                .map_err(StoreError::sqlite("note a receipt"))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::{Kept, Outbox, OutboxError};
    use crate::fixture::{JOB, OURS};
    use crate::site::store::Store;

    fn outbox() -> (tempfile::TempDir, Store, Outbox) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(&dir.path().join("ledger.db")).expect("the folder is writable");
        let outbox = Outbox::new(JOB, OURS, &dir.path().join("work"));
        (dir, store, outbox)
    }

    #[test]
    fn a_kept_vector_is_sent_again_bit_for_bit() {
        let (_dir, store, outbox) = outbox();
        let bits: Vec<u8> = [1.5_f32, -0.0, f32::MIN_POSITIVE].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(outbox.state(&store, "private", 1).expect("it is open"), Kept::Nothing);
        outbox.keep(&store, "private", 1, &bits, 3, Some(9)).expect("the disk has room");
        assert_eq!(outbox.state(&store, "private", 1).expect("it is open"), Kept::Stored);
        let parcel = outbox.parcel(&store, "private", 1).expect("it is kept");
        assert_eq!((parcel.bytes, parcel.length, parcel.receipt), (bits, 3, Some(9)));
        outbox.accepted(&store, "private", 1, &[9]).expect("it is open");
        assert_eq!(outbox.state(&store, "private", 1).expect("it is open"), Kept::Accepted);
    }

    #[test]
    fn a_damaged_vector_is_never_sent() {
        let (_dir, store, outbox) = outbox();
        outbox.keep(&store, "private", 1, &[1, 2, 3, 4], 1, None).expect("the disk has room");
        std::fs::write(outbox.file("private", 1), [0, 0, 0, 0]).expect("it is there");
        assert_eq!(outbox.state(&store, "private", 1).expect("it is open"), Kept::Nothing);
        assert!(matches!(outbox.parcel(&store, "private", 1), Err(OutboxError::Damaged(_))));
    }

    #[test]
    fn an_accepted_vector_is_never_replaced() {
        let (_dir, store, outbox) = outbox();
        outbox.keep(&store, "private", 1, &[1, 2, 3, 4], 1, Some(1)).expect("the disk has room");
        outbox.accepted(&store, "private", 1, &[1]).expect("it is open");
        outbox.keep(&store, "private", 1, &[5, 6, 7, 8], 1, Some(2)).expect("the disk has room");
        assert_eq!(outbox.state(&store, "private", 1).expect("it is open"), Kept::Accepted);
    }

    #[test]
    fn nothing_is_left_of_a_job_that_is_over() {
        let (dir, store, outbox) = outbox();
        outbox.keep(&store, "private", 1, &[1, 2, 3, 4], 1, None).expect("the disk has room");
        outbox.clear().expect("it is ours");
        outbox.clear().expect("nothing to remove is fine");
        assert!(!dir.path().join("work/outbox").exists());
    }
}
