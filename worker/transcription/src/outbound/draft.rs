//! A batch under construction: sounds are written to disk as they are finished, in any order, and cannot leave.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::OutboundError;
use super::sealed::{BatchPermit, BatchSeal, IndexRow, SealedSounds, index, seal, sounds};
use undertone_worker_site::fault;
use undertone_worker_site::folder::{FolderError, create_private, sync_folder, write_durably};

/// A batch that is not complete.
#[derive(Debug)]
#[must_use = "sounds that were made should leave"]
pub struct BatchDraft {
    folder: PathBuf,
    recipients: Vec<String>,
    sizes: Vec<u32>,
    files: Vec<SoundFile>,
    index: BufWriter<File>,
    digest: Sha256,
    filled: HashSet<(u32, u32)>,
}

/// The sounds of one provider, with their total size in bytes.
#[derive(Debug)]
struct SoundFile {
    file: BufWriter<File>,
    bytes: u64,
}

impl BatchDraft {
    /// Creates an empty batch in `folder`, which must be its own. `providers` holds each provider's name and address
    /// ([`ProviderLine::recipient`](crate::provider::line::ProviderLine::recipient)) and its number of sounds. An unsealed draft
    /// from an earlier run is deleted: it was never charged, and nothing of it was sent.
    ///
    /// # Errors
    /// [`OutboundError::Sealed`] when the folder holds a sealed batch.
    pub fn begin(folder: &Path, providers: Vec<(String, u32)>) -> Result<Self, OutboundError> {
        if seal(folder).exists() {
            return Err(OutboundError::Sealed(folder.to_owned()));
        }
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(FolderError::io("remove", folder)(error).into());
            }
            _ => create_private(folder)?,
        }
        let (recipients, sizes): (Vec<_>, Vec<_>) = providers.into_iter().unzip();
        let files = (0..sizes.len()).map(|provider| create(&sounds(folder, provider)));
        let files = files.map(|file| file.map(|file| SoundFile { file, bytes: 0 })).collect::<Result<_, _>>()?;
        Ok(Self {
            folder: folder.to_owned(),
            recipients,
            sizes,
            files,
            index: create(&index(folder))?,
            digest: Sha256::new(),
            filled: HashSet::new(),
        })
    }

    /// Stores a sound, a file that [`wav::write`](crate::wav::write) made, at a place of a provider's batch. Providers and
    /// places are counted from 0.
    ///
    /// # Errors
    /// [`OutboundError::Place`] when the place does not exist or is filled, [`OutboundError::Folder`] when the disk refuses.
    pub fn add(&mut self, provider: u32, place: u32, wav: &[u8]) -> Result<(), OutboundError> {
        let no_place = OutboundError::Place { provider, place };
        let there = self.sizes.get(provider as usize).is_some_and(|size| place < *size);
        let Some(sounds_file) = self.files.get_mut(provider as usize).filter(|_| there) else { return Err(no_place) };
        if !self.filled.insert((provider, place)) {
            return Err(no_place);
        }
        let row = IndexRow {
            provider,
            place,
            at: sounds_file.bytes,
            bytes: wav.len() as u64,
            digest: hex::encode(Sha256::digest(wav)),
        };
        let path = sounds(&self.folder, provider as usize);
        sounds_file.file.write_all(wav).map_err(FolderError::io("write", &path))?;
        sounds_file.bytes += row.bytes;
        // A row of numbers and hexadecimal digits always serializes.
        let mut line = serde_json::to_vec(&row).map_err(|_| OutboundError::Damaged(index(&self.folder)))?;
        line.push(b'\n');
        self.digest.update(&line);
        self.index.write_all(&line).map_err(FolderError::io("write", &index(&self.folder)))?;
        Ok(())
    }

    /// Returns the number of missing sounds.
    pub fn missing(&self) -> usize {
        let all: usize = self.sizes.iter().map(|size| *size as usize).sum();
        all - self.filled.len()
    }

    /// Turns the draft into a batch that may be paid and sent. Sounds, index and event are on disk when this returns.
    ///
    /// # Errors
    /// [`OutboundError::Incomplete`] when sounds are missing.
    pub fn seal(self, permit: BatchPermit) -> Result<SealedSounds, OutboundError> {
        let missing = self.missing();
        if missing > 0 {
            return Err(OutboundError::Incomplete { missing });
        }
        let Self { folder, recipients, files, index: rows, digest, .. } = self;
        fault::point(fault::BEFORE_STORE);
        for (provider, sounds_file) in files.into_iter().enumerate() {
            sync(sounds_file.file, &sounds(&folder, provider))?;
        }
        sync(rows, &index(&folder))?;
        sync_folder(&folder)?;
        let contents =
            BatchSeal { index: hex::encode(digest.finalize()), recipients, event: permit.event, receipt: None };
        let text = serde_json::to_vec(&contents).map_err(|_| OutboundError::Damaged(seal(&folder)))?;
        // The seal is written last: without it, the sounds are ignored.
        write_durably(&seal(&folder), &text)?;
        fault::point(fault::AFTER_STORE);
        SealedSounds::open(&folder)?.ok_or_else(|| OutboundError::Damaged(seal(&folder)))
    }
}

fn create(path: &Path) -> Result<BufWriter<File>, FolderError> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(BufWriter::new).map_err(FolderError::io("create", path))
}

fn sync(file: BufWriter<File>, path: &Path) -> Result<(), FolderError> {
    let file = file.into_inner().map_err(|error| FolderError::io("write", path)(error.into_error()))?;
    fault::disk(fault::BEFORE_SYNC).map_err(FolderError::io("sync", path))?;
    file.sync_all().map_err(FolderError::io("sync", path))
}
