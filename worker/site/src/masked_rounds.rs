//! The site's durable records of masked rounds: the decisions of secure aggregation that a crash must not undo.
//!
//! Each round of a part has one file in the part's work folder. The file is replaced as a whole and synced before the site's
//! message of that step exists, so a crash leaves the record before the step or after it. While the round lasts the record
//! holds its secret, so the file is readable by its owner only. The files of a part disappear with its other files, when the
//! server knows the end of the part.
//!
//! The noisy sum that a round masks lies beside the record from before the first message until the masked bytes are in
//! the outbox: after a crash the same sum is masked. It is a release with the site's own noise alone, which never leaves.
//!
//! Records are not part of backups ([`crate::restore`]): a restored record may lack the set of survivors that the site has
//! signed. Without its record a site has another secret for the round, with which shares of the former one do not open.
//!
//! The holder of the site's lock is the only process that has rounds open.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rand_chacha::rand_core::CryptoRng;
use undertone_secure_aggregation::journal::{RoundJournal, RoundRecord};
use undertone_secure_aggregation::refusal::SiteError;
use undertone_secure_aggregation::roster::AcceptedRoster;
use undertone_secure_aggregation::round::RoundContext;
use undertone_secure_aggregation::site::SiteRound;
use zeroize::Zeroizing;

use super::folder::{FolderError, write_durably};
use super::keys::SiteKey;

/// The folder of the records in a part's work folder.
const FOLDER: &str = "masked-rounds";

/// Reasons why a record cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The disk refuses.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file is no record.
    #[error("{path} is no record of a masked round: leave the job, because the site cannot know what it has signed")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: serde_json::Error,
    },
}

/// A round at this site, with its records.
pub type OpenRound<'a> = SiteRound<'a, MaskedRoundJournal>;

/// Begins a round of a group, or continues the one in the records, with the site's identity key. `rng` draws the secret
/// of a round that begins.
///
/// # Errors
/// The refusals of [`SiteRound::enter`], or an error of the records.
pub fn enter<'a>(
    accepted: &'a AcceptedRoster,
    key: &'a SiteKey,
    context: RoundContext,
    journal: MaskedRoundJournal,
    rng: &mut impl CryptoRng,
) -> Result<OpenRound<'a>, SiteError<RecordError>> {
    SiteRound::enter(accepted, key.signing_key(), context, journal, rng)
}

/// The records of one part.
#[derive(Debug, Clone)]
pub struct MaskedRoundJournal(PathBuf);

impl MaskedRoundJournal {
    /// Returns the records in the work folder `work` of a part.
    pub fn new(work: &Path) -> Self {
        Self(work.join(FOLDER))
    }

    fn path(&self, slot: &[u8; 32]) -> PathBuf {
        self.0.join(hex::encode(slot))
    }

    fn sum_path(&self, slot: &[u8; 32]) -> PathBuf {
        self.path(slot).with_extension("sum")
    }

    /// Stores the noisy sum of a round, little-endian; on disk when this returns.
    ///
    /// # Errors
    /// [`RecordError`] when the disk fails.
    pub fn store_sum(&self, slot: &[u8; 32], sum: &[i32]) -> Result<(), RecordError> {
        let bytes: Vec<u8> = sum.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(write_durably(&self.sum_path(slot), &bytes)?)
    }

    /// Returns the stored noisy sum of a round; `None` when there is none.
    ///
    /// # Errors
    /// [`RecordError`] when the disk fails.
    pub fn load_sum(&self, slot: &[u8; 32]) -> Result<Option<Vec<i32>>, RecordError> {
        let path = self.sum_path(slot);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(FolderError::io("read", &path))?,
        };
        let (values, _) = bytes.as_chunks::<4>();
        Ok(Some(values.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()))
    }

    /// Removes the noisy sum of a round, if it exists.
    ///
    /// # Errors
    /// [`RecordError`] when the disk fails.
    pub fn remove_sum(&self, slot: &[u8; 32]) -> Result<(), RecordError> {
        let path = self.sum_path(slot);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(FolderError::io("remove", &path)(error).into()),
            _ => Ok(()),
        }
    }
}

impl RoundJournal for MaskedRoundJournal {
    type Error = RecordError;

    fn load(&mut self, slot: &[u8; 32]) -> Result<Option<RoundRecord>, RecordError> {
        let path = self.path(slot);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => Zeroizing::new(read.map_err(FolderError::io("read", &path))?),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|source| RecordError::Malformed { path, source })
    }

    fn store(&mut self, slot: &[u8; 32], record: &RoundRecord) -> Result<(), RecordError> {
        let path = self.path(slot);
        let bytes = serde_json::to_vec(record).map(Zeroizing::new);
        let bytes = bytes.map_err(|source| RecordError::Malformed { path: path.clone(), source })?;
        Ok(write_durably(&path, &bytes)?)
    }
}

#[cfg(test)]
mod tests;
