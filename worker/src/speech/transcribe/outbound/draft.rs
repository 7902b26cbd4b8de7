//! A batch in the making: sounds go to the disk as they are finished, in any order, and cannot leave.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{BatchPermit, OutboundError, Row, Seal, Sealed, index, seal, sounds};
use crate::fault;
use crate::site::folder::{FolderError, create_private, sync_folder, write_durably};

/// A batch that is not whole yet.
#[derive(Debug)]
#[must_use = "sounds that were made should leave"]
pub struct Draft {
    folder: PathBuf,
    recipients: Vec<String>,
    sizes: Vec<u32>,
    files: Vec<Pack>,
    index: BufWriter<File>,
    digest: Sha256,
    filled: HashSet<(u32, u32)>,
}

/// The sounds of one provider, and how many bytes they are.
#[derive(Debug)]
struct Pack {
    file: BufWriter<File>,
    bytes: u64,
}

impl Draft {
    /// An empty batch in `folder`, which is its own: for each provider its name and address
    /// ([`Line::recipient`](crate::speech::transcribe::provider::line::Line::recipient)) and how many sounds it gets. A draft that an
    /// earlier life left unsealed is deleted: it was never charged, and nothing of it was ever sent.
    ///
    /// # Errors
    /// [`OutboundError::Sealed`] when a batch is sealed there.
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
        let files = files.map(|file| file.map(|file| Pack { file, bytes: 0 })).collect::<Result<_, _>>()?;
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

    /// Puts a sound, a file that [`wav::write`](crate::speech::transcribe::wav::write) made, at a place of a provider's batch, both
    /// counted from 0.
    ///
    /// # Errors
    /// [`OutboundError::Place`] when there is no such place or it is filled, [`OutboundError::Folder`] when the disk refuses.
    pub fn add(&mut self, provider: u32, place: u32, wav: &[u8]) -> Result<(), OutboundError> {
        let no_place = OutboundError::Place { provider, place };
        let there = self.sizes.get(provider as usize).is_some_and(|size| place < *size);
        let Some(pack) = self.files.get_mut(provider as usize).filter(|_| there) else { return Err(no_place) };
        if !self.filled.insert((provider, place)) {
            return Err(no_place);
        }
        let row =
            Row { provider, place, at: pack.bytes, bytes: wav.len() as u64, digest: hex::encode(Sha256::digest(wav)) };
        let path = sounds(&self.folder, provider as usize);
        pack.file.write_all(wav).map_err(FolderError::io("write", &path))?;
        pack.bytes += row.bytes;
        // A row of numbers and hexadecimal digits has a JSON form.
        let mut line = serde_json::to_vec(&row).map_err(|_| OutboundError::Damaged(index(&self.folder)))?;
        line.push(b'\n');
        self.digest.update(&line);
        self.index.write_all(&line).map_err(FolderError::io("write", &index(&self.folder)))?;
        Ok(())
    }

    /// Sounds that are missing still.
    pub fn missing(&self) -> usize {
        let all: usize = self.sizes.iter().map(|size| *size as usize).sum();
        all - self.filled.len()
    }

    /// Makes it a batch that may be paid and leave; sounds, index and event are on disk when this returns.
    ///
    /// # Errors
    /// [`OutboundError::Incomplete`] when sounds are missing.
    pub fn seal(self, permit: BatchPermit) -> Result<Sealed, OutboundError> {
        let missing = self.missing();
        if missing > 0 {
            return Err(OutboundError::Incomplete { missing });
        }
        let Self { folder, recipients, files, index: rows, digest, .. } = self;
        fault::point(fault::BEFORE_STORE);
        for (provider, pack) in files.into_iter().enumerate() {
            sync(pack.file, &sounds(&folder, provider))?;
        }
        sync(rows, &index(&folder))?;
        sync_folder(&folder)?;
        let made = Seal { index: hex::encode(digest.finalize()), recipients, event: permit.event, receipt: None };
        let text = serde_json::to_vec(&made).map_err(|_| OutboundError::Damaged(seal(&folder)))?;
        // The seal comes last: without it the sounds count for nothing.
        write_durably(&seal(&folder), &text)?;
        fault::point(fault::AFTER_STORE);
        Sealed::open(&folder)?.ok_or_else(|| OutboundError::Damaged(seal(&folder)))
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
