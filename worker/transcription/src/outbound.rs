//! Sends sounds to recognizers: only sounds that were charged, bit for bit; a charged sound may be sent any number of times.
//!
//! The module is a chain of types. A [`BatchDraft`] writes finished sounds to disk; none of them can be sent. A
//! [`BatchPermit`] is made only from the site's [`Clearance`], for exactly the release of the plan. [`BatchDraft::seal`]
//! consumes it and returns a [`SealedSounds`] batch, which is durable and not yet paid. The site issues a
//! [`DepartureProof`](undertone_worker_site::clearance::DepartureProof) once the batch is paid and the server has countersigned the
//! payment. With it, the batch yields [`OutgoingSound`]s, and a [`ProviderLine`](super::provider::line::ProviderLine) sends
//! nothing else. A caller cannot construct an outgoing sound:
//!
//! ```compile_fail,E0451
//! use undertone_worker_transcription::outbound::OutgoingSound;
//! let bare = OutgoingSound { wav: vec![0; 48] };
//! ```
//!
//! A draft yields no outgoing sound, and a permit seals one batch:
//!
//! ```compile_fail,E0599
//! use undertone_worker_transcription::outbound::BatchDraft;
//! fn send(draft: &BatchDraft) {
//!     let _ = draft.outgoing(0, 0);
//! }
//! ```
//!
//! ```compile_fail,E0382
//! use undertone_worker_transcription::outbound::{BatchPermit, BatchDraft};
//! fn twice(one: BatchDraft, two: BatchDraft, permit: BatchPermit) {
//!     let _ = one.seal(permit);
//!     let _ = two.seal(permit);
//! }
//! ```
//!
//! After a crash, [`SealedSounds::open`] loads the sealed batch with its answers. The worker pays for it if it is unpaid, and
//! sends the same bits to the same recognizer without a second charge. Other bits are not sent: each sound is compared with
//! its sealed digest, and each recognizer with its sealed name and address. An unsealed draft is discarded and made again,
//! with new noise.
//!
//! Files in the folder: `sounds-N` (the WAV files of provider N, concatenated), `index` (position and digest of each sound),
//! `seal.json` (digest of the index, recipients, privacy event; written last), `answers` (append-only: sent sounds and their
//! answers). Only the owner may read them.

mod deliver;
mod draft;
mod journal;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::signed::{Receipt, Signed};
use undertone_privacy::Event;

use self::journal::DeliveryJournal;
use super::piece::Recognition;
use super::provider::line::LineError;
use super::wav::{self, HEADER};
use undertone_worker_site::clearance::Clearance;
use undertone_worker_site::folder::FolderError;
use undertone_worker_site::outbox::SealedBatch;

pub use deliver::{DeliveryResult, GIVE_UP, deliver};
pub use draft::BatchDraft;

/// Reasons that a batch does not leave.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The site granted another release.
    #[error("the site grants {granted:?}, but the batch would be {made:?}: spec and manifest disagree")]
    WrongEvent {
        /// The granted release.
        granted: Box<Event>,
        /// The release of this batch.
        made: Box<Event>,
    },
    /// The folder already holds a sealed batch.
    #[error("{0} holds a sealed batch: open it instead of drawing another")]
    Sealed(PathBuf),
    /// The batch is unpaid, or the server has not countersigned the payment.
    #[error("the batch is not paid and countersigned, so nothing of it leaves")]
    Unpaid,
    /// The place does not exist, or is filled.
    #[error("provider {provider} has no empty place {place} in this batch")]
    Place {
        /// The provider, from 0.
        provider: u32,
        /// The place, from 0.
        place: u32,
    },
    /// Sounds are missing.
    #[error("{missing} sounds of the batch are missing: make them before it is sealed")]
    Incomplete {
        /// Number of missing sounds.
        missing: usize,
    },
    /// The line leads to another recognizer than the batch was charged for.
    #[error(
        "provider {provider} was {sealed} when this was charged, and is {now}: configure {sealed} again, or propose a new job"
    )]
    Recipient {
        /// The provider, from 0.
        provider: u32,
        /// Name and address in the seal.
        sealed: String,
        /// Name and address of the line.
        now: String,
    },
    /// The bits differ from the charged ones.
    #[error("{0} differs from the charged batch: check the disk; the batch must be drawn and paid again")]
    Damaged(PathBuf),
    /// The file system refuses.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A thread ended early.
    #[error("a thread that wrote the journal is gone")]
    Thread,
    /// The recognizer refuses the site's key.
    #[error("cannot send to {recipient}")]
    Line {
        /// Name and address.
        recipient: String,
        /// The reason.
        #[source]
        source: LineError,
    },
}

/// Permission to seal one batch. It cannot be copied.
#[derive(Debug)]
#[must_use = "without it the sounds cannot leave"]
pub struct BatchPermit {
    /// The event charged before the batch leaves; `None` for public data.
    event: Option<Event>,
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

/// A sound that may be sent to one recognizer: a canonical WAV file.
#[must_use = "it was cleared to be sent"]
pub struct OutgoingSound {
    wav: Vec<u8>,
}

impl OutgoingSound {
    /// Returns the file.
    pub fn wav(&self) -> &[u8] {
        &self.wav
    }

    /// Returns a sound for tests of provider lines, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub const fn in_test(wav: Vec<u8>) -> Self {
        Self { wav }
    }
}

/// Prints the size only.
impl std::fmt::Debug for OutgoingSound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutgoingSound({} bytes)", self.wav.len())
    }
}

/// Position and digest of one sound.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct IndexRow {
    provider: u32,
    place: u32,
    /// First byte in the provider's file.
    at: u64,
    bytes: u64,
    /// SHA-256, hex.
    digest: String,
}

/// Turns a draft into a batch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchSeal {
    /// SHA-256 of the index, hex.
    index: String,
    /// Name and address of each provider.
    recipients: Vec<String>,
    /// The released event; `None` for public data.
    #[serde(default)]
    event: Option<Event>,
    /// The receipt, from a worker version that paid before it sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<Signed>,
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

fn sounds(folder: &Path, provider: usize) -> PathBuf {
    folder.join(format!("sounds-{provider}"))
}

fn index(folder: &Path) -> PathBuf {
    folder.join("index")
}

fn seal(folder: &Path) -> PathBuf {
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
    fn outgoing(&self, provider: u32, place: u32) -> Result<OutgoingSound, OutboundError> {
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

    fn note_answer(&self, provider: u32, place: u32, recognition: Recognition) -> Result<(), OutboundError> {
        self.journal().note_answer(provider, place, recognition)
    }

    fn journal(&self) -> MutexGuard<'_, DeliveryJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
