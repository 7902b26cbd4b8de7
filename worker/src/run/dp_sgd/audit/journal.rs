//! The stored state of an audit: the secret of its canaries, before the first draw, and the evidence of each round,
//! before its vector leaves.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::dp::randomness::Randomness;
use crate::run::RunError;
use crate::run::dp_sgd::error::TrainingError;
use crate::site::folder::write_durably;

/// Returns the secret of the canaries: the stored one, or a fresh one that is on disk when this returns. With
/// `has_begun`, rounds were released already, and a fresh one would not match them.
///
/// # Errors
/// [`RunError::Failed`] when the disk refuses, or the secret of released rounds is gone.
pub(super) fn load_secret(
    folder: &Path,
    has_begun: bool,
    fresh: impl FnOnce() -> Randomness,
) -> Result<Randomness, RunError> {
    let path = folder.join("canaries.secret");
    let has_begun = has_begun || folder.join("canaries.journal").exists();
    match fs::read(&path).map(Zeroizing::new) {
        Ok(bytes) => {
            let seed = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| TrainingError::DamagedAudit(path))?;
            Ok(Randomness::restore_canaries(Zeroizing::new(seed)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !has_begun => {
            let fresh = fresh();
            let seed = fresh.canary_secret().ok_or(TrainingError::NotCanarySecret)?;
            write_durably(&path, seed.as_slice())?;
            Ok(fresh)
        }
        Err(source) => Err(TrainingError::LostSecret { path, source }.into()),
    }
}

/// The evidence about each canary, summed over rounds.
pub(super) struct EvidenceJournal {
    path: PathBuf,
    /// The last recorded round; 0 before the first.
    last: u32,
    /// Evidence of the rounds before it.
    before: Vec<f64>,
    /// Evidence of the last round alone: it may have to be replaced.
    latest: Vec<f64>,
}

impl EvidenceJournal {
    /// Opens the journal in `folder`, empty if there is none.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is damaged or has another number of canaries.
    pub(super) fn open(folder: &Path, canaries: usize) -> Result<Self, RunError> {
        let path = folder.join("canaries.journal");
        match fs::read(&path) {
            Ok(file) => Ok(Self::read(&path, &file, canaries).ok_or(TrainingError::DamagedAudit(path))?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self { path, last: 0, before: vec![0.0; canaries], latest: vec![0.0; canaries] })
            }
            Err(source) => Err(TrainingError::AuditFile { path, source }.into()),
        }
    }

    /// Reads the file: digest, last round, evidence before it, evidence of it; numbers little-endian.
    fn read(path: &Path, file: &[u8], canaries: usize) -> Option<Self> {
        let (digest, body) = file.split_at_checked(32)?;
        let (last, numbers) = body.split_at_checked(4)?;
        if Sha256::digest(body).as_slice() != digest || numbers.len() != 16 * canaries {
            return None;
        }
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        let before = numbers.by_ref().take(canaries).collect();
        let last = u32::from_le_bytes(last.try_into().ok()?);
        Some(Self { path: path.to_owned(), last, before, latest: numbers.collect() })
    }

    /// Records the evidence of a round, in place of an earlier attempt at the same one; on disk when this returns.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses, or the round is before the last.
    pub(super) fn record(&mut self, round: u32, evidence: Vec<f64>) -> Result<(), RunError> {
        if round < self.last {
            return Err(TrainingError::EvidenceOrder { last: self.last, round }.into());
        }
        if round > self.last {
            self.before.iter_mut().zip(&self.latest).for_each(|(before, latest)| *before += latest);
        }
        self.last = round;
        self.latest = evidence;
        let mut body = self.last.to_le_bytes().to_vec();
        body.extend(self.before.iter().chain(&self.latest).flat_map(|number| number.to_le_bytes()));
        let file = [Sha256::digest(&body).as_slice(), &body].concat();
        Ok(write_durably(&self.path, &file)?)
    }

    /// Returns each canary's score.
    pub(super) fn scores(&self) -> Vec<f64> {
        self.before.iter().zip(&self.latest).map(|(before, latest)| before + latest).collect()
    }
}
