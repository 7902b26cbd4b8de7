//! Records of a round in a folder, durable before a message leaves.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use undertone_secure_aggregation::journal::{RoundJournal, RoundRecord};

/// A folder with one file for each round.
pub(super) struct FolderJournal(pub(super) PathBuf);

impl FolderJournal {
    fn path(&self, slot: &[u8; 32]) -> PathBuf {
        self.0.join(hex::encode(slot))
    }
}

impl RoundJournal for FolderJournal {
    type Error = io::Error;

    fn load(&mut self, slot: &[u8; 32]) -> io::Result<Option<RoundRecord>> {
        match fs::read(self.path(slot)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn store(&mut self, slot: &[u8; 32], record: &RoundRecord) -> io::Result<()> {
        let path = self.path(slot);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.0)?.sync_all()
    }
}
