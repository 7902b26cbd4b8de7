//! A batch that is on disk to the bit, the permission that seals it, and the files of its folder.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::signed::{Receipt, Signed};
use undertone_privacy::Event;

use super::error::OutboundError;
use super::journal::DeliveryJournal;
use super::outgoing::OutgoingSound;
use crate::piece::Recognition;
use crate::wav::{self, HEADER};
use undertone_worker_site::clearance::Clearance;
use undertone_worker_site::folder::FolderError;
use undertone_worker_site::outbox::SealedBatch;

/// Permission to seal one batch. It cannot be copied.
#[derive(Debug)]
#[must_use = "without it the sounds cannot leave"]
pub struct BatchPermit {
    /// The event charged before the batch leaves; `None` for public data.
    pub(super) event: Option<Event>,
}

impl BatchPermit {
    /// Consumes the site's permission for `made`, the release of the batch's plan.
    ///
    /// # Errors
    /// [`OutboundError::WrongEvent`] when the site granted another event. Nothing was charged.
    pub fn new(clearance: Clearance, made: &Event) -> Result<Self, OutboundError> {
        match clearance {
            Clearance::Public(_) => Ok(Self { event: None }),
            Clearance::Granted(grant) if grant.event() == made => Ok(Self { event: Some(made.clone()) }),
            Clearance::Granted(grant) => Err(OutboundError::WrongEvent {
                granted: Box::new(grant.event().clone()),
                made: Box::new(made.clone()),
            }),
        }
    }
}

/// Position and digest of one sound.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct IndexRow {
    pub(super) provider: u32,
    pub(super) place: u32,
    /// First byte in the provider's file.
    pub(super) at: u64,
    pub(super) bytes: u64,
    /// SHA-256, hex.
    pub(super) digest: String,
}

/// Turns a draft into a batch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchSeal {
    /// SHA-256 of the index, hex.
    pub(super) index: String,
    /// Name and address of each provider.
    pub(super) recipients: Vec<String>,
    /// The released event; `None` for public data.
    #[serde(default)]
    pub(super) event: Option<Event>,
    /// The receipt, from a worker version that paid before it sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) receipt: Option<Signed>,
}

impl BatchSeal {
    /// Returns the released event; `None` for public data.
    fn event(&self) -> Result<Option<Event>, serde_json::Error> {
        match &self.receipt {
            Some(signed) => serde_json::from_str::<Receipt>(&signed.payload).map(|receipt| Some(receipt.event)),
            None => Ok(self.event.clone()),
        }
    }
}

/// A batch whose bits do not change any more. It leaves when it is paid.
#[derive(Debug)]
pub struct SealedSounds {
    folder: PathBuf,
    seal: BatchSeal,
    event: Option<Event>,
    /// Rows by provider and place.
    rows: Vec<Vec<IndexRow>>,
    sounds: Vec<File>,
    journal: Mutex<DeliveryJournal>,
}

pub(super) fn sounds(folder: &Path, provider: usize) -> PathBuf {
    folder.join(format!("sounds-{provider}"))
}

pub(super) fn index(folder: &Path) -> PathBuf {
    folder.join("index")
}

pub(super) fn seal(folder: &Path) -> PathBuf {
    folder.join("seal.json")
}

impl SealedBatch for SealedSounds {
    fn digest(&self) -> &str {
        self.digest()
    }

    fn sounds(&self) -> u64 {
        let providers = 0..self.recipients().len() as u32;
        providers.map(|provider| self.lengths(provider).count() as u64).sum()
    }
}

impl SealedSounds {
    /// Opens the batch that was sealed in `folder`; `None` when none was sealed there.
    ///
    /// # Errors
    /// [`OutboundError::Damaged`] when a file differs from the sealed one.
    pub fn open(folder: &Path) -> Result<Option<Self>, OutboundError> {
        let path = seal(folder);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(FolderError::io("read", &path))?,
        };
        let seal: BatchSeal = serde_json::from_slice(&text).map_err(|_| OutboundError::Damaged(path.clone()))?;
        let event = seal.event().map_err(|_| OutboundError::Damaged(path))?;
        let path = index(folder);
        let text = fs::read(&path).map_err(FolderError::io("read", &path))?;
        if hex::encode(Sha256::digest(&text)) != seal.index {
            return Err(OutboundError::Damaged(path));
        }
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let rows: Result<Vec<IndexRow>, _> = lines.map(serde_json::from_slice).collect();
        let mut all = rows.map_err(|_| OutboundError::Damaged(path))?;
        all.sort_by_key(|row| (row.provider, row.place));
        let mut rows = vec![Vec::new(); seal.recipients.len()];
        for row in all {
            rows.get_mut(row.provider as usize).ok_or_else(|| OutboundError::Damaged(index(folder)))?.push(row);
        }
        let open = |provider| {
            let path = sounds(folder, provider);
            File::open(&path).map_err(FolderError::io("open", &path))
        };
        let files = (0..rows.len()).map(open).collect::<Result<_, _>>()?;
        let journal = Mutex::new(DeliveryJournal::open(folder)?);
        Ok(Some(Self { folder: folder.to_owned(), seal, event, rows, sounds: files, journal }))
    }

    /// Returns the event that the batch releases and that must be paid before it leaves; `None` for public data.
    pub const fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Returns name and address of each provider, by provider number.
    pub fn recipients(&self) -> &[String] {
        &self.seal.recipients
    }

    /// Returns the SHA-256 of the list of sounds, hexadecimal. Batches with the same digest are equal, to the bit.
    pub fn digest(&self) -> &str {
        &self.seal.index
    }

    /// Returns the number of samples of each of a provider's sounds, in the order of their places.
    pub fn lengths(&self, provider: u32) -> impl Iterator<Item = u64> + '_ {
        let rows = self.rows.get(provider as usize).map_or(&[][..], Vec::as_slice);
        rows.iter().map(|row| row.bytes.saturating_sub(HEADER as u64) / 2)
    }

    /// Returns the places of a provider's unanswered sounds, in order.
    pub fn unanswered(&self, provider: u32) -> Vec<u32> {
        let journal = self.journal();
        let rows = self.rows.get(provider as usize).map_or(&[][..], Vec::as_slice);
        rows.iter().map(|row| row.place).filter(|place| !journal.is_answered(provider, *place)).collect()
    }

    /// Returns how often sounds were sent to a provider, over all runs of the worker. A repeated sound counts each time.
    pub fn send_count(&self, provider: u32) -> u64 {
        self.journal().send_count(provider)
    }

    /// Returns the answers so far: provider, place and words, ordered by provider and place.
    pub fn answers(&self) -> Vec<(u32, u32, Recognition)> {
        self.journal().answers()
    }

    /// Removes the folder, once the transcript is written or the job is over.
    ///
    /// # Errors
    /// [`OutboundError::Folder`] when the file system refuses.
    pub fn clear(self) -> Result<(), OutboundError> {
        fs::remove_dir_all(&self.folder).map_err(FolderError::io("remove", &self.folder))?;
        Ok(())
    }

    /// Returns the sound at a place as its recognizer receives it, for use at the site: mono samples at 16 kHz. Nothing in this
    /// module sends them.
    ///
    /// # Errors
    /// [`OutboundError::Place`] when there is no sound, [`OutboundError::Damaged`] when it differs from the charged one.
    pub fn samples(&self, provider: u32, place: u32) -> Result<Vec<f32>, OutboundError> {
        let file = self.file(provider, place)?;
        wav::read(&file).map_err(|_| OutboundError::Damaged(sounds(&self.folder, provider as usize)))
    }

    /// Returns the sound at a place, exactly as charged. The journal entry of the send is on disk when this returns.
    pub(super) fn outgoing(&self, provider: u32, place: u32) -> Result<OutgoingSound, OutboundError> {
        let wav = self.file(provider, place)?;
        self.journal().note_sent(provider, place)?;
        Ok(OutgoingSound { wav })
    }

    /// Reads the file at a place and compares it with its digest.
    fn file(&self, provider: u32, place: u32) -> Result<Vec<u8>, OutboundError> {
        let missing = OutboundError::Place { provider, place };
        let row = self.rows.get(provider as usize).and_then(|rows| rows.get(place as usize)).ok_or(missing)?;
        let number = provider as usize;
        let damaged = || OutboundError::Damaged(sounds(&self.folder, number));
        let file = self.sounds.get(number).ok_or_else(damaged)?;
        let mut wav = vec![0; row.bytes as usize];
        file.read_exact_at(&mut wav, row.at).map_err(|_| damaged())?;
        if hex::encode(Sha256::digest(&wav)) != row.digest {
            return Err(damaged());
        }
        Ok(wav)
    }

    pub(super) fn note_answer(&self, provider: u32, place: u32, recognition: Recognition) -> Result<(), OutboundError> {
        self.journal().note_answer(provider, place, recognition)
    }

    fn journal(&self) -> MutexGuard<'_, DeliveryJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
