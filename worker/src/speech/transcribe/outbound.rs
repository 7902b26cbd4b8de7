//! What leaves for the recognizers: sounds that were charged, bit for bit, and once charged, as often as it takes.
//!
//! The road is a chain of types. A [`Draft`] takes the finished sounds onto the disk; nothing of it can be sent. A [`BatchPermit`] is made
//! of the site's [`Clearance`] alone, for exactly the release that the plan is, and is used up by [`Draft::seal`], which gives a
//! [`Sealed`] batch: durable, and not paid yet. With the site's [`Departure`](crate::site::clearance::Departure), which exists once the batch is paid and the server has
//! countersigned the payment, come [`Outgoing`] sounds of it, the only thing that a
//! [`Line`](super::provider::line::Line) sends. A bare sound is none:
//!
//! ```compile_fail,E0451
//! use undertone_worker::speech::transcribe::outbound::Outgoing;
//! let bare = Outgoing { wav: vec![0; 48] };
//! ```
//!
//! A draft is none, and a permit seals one batch:
//!
//! ```compile_fail,E0599
//! use undertone_worker::speech::transcribe::outbound::Draft;
//! fn send(draft: &Draft) {
//!     let _ = draft.outgoing(0, 0);
//! }
//! ```
//!
//! ```compile_fail,E0382
//! use undertone_worker::speech::transcribe::outbound::{BatchPermit, Draft};
//! fn twice(one: Draft, two: Draft, permit: BatchPermit) {
//!     let _ = one.seal(permit);
//!     let _ = two.seal(permit);
//! }
//! ```
//!
//! After a crash [`Sealed::open`] finds what was sealed, with its answers: it is paid if it was not, and the same bits go again to the
//! same recognizer without a second charge. Other bits do not: every sound is held against the digest that was sealed, every recognizer against its name
//! and address. An unsealed draft counts for nothing and is made anew, noise and all.
//!
//! In the folder: `sounds-N` (the files of provider N, one behind the other), `index` (where each lies, with its digest), `seal.json`
//! (digest of the index, recipients, the event that it is; written last), `answers` (append-only: what was sent and what was answered). All of
//! it only its owner may read.

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

use self::journal::Journal;
use super::piece::Heard;
use super::provider::line::LineError;
use super::wav::{self, HEADER};
use crate::site::clearance::Clearance;
use crate::site::folder::FolderError;

#[cfg(test)]
pub(crate) use deliver::GIVE_UP;
pub use deliver::{Delivered, deliver};
pub use draft::Draft;

/// Why nothing leaves.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// Something else was granted.
    #[error("the site grants {granted:?}, but the batch would be {made:?}: spec and manifest disagree")]
    WrongEvent {
        /// What was granted.
        granted: Box<Event>,
        /// What would leave.
        made: Box<Event>,
    },
    /// A batch that was sealed is there already.
    #[error("{0} holds a sealed batch: open it instead of drawing another")]
    Sealed(PathBuf),
    /// It is not paid, or the server has not countersigned the payment.
    #[error("the batch is not paid and countersigned, so nothing of it leaves")]
    Unpaid,
    /// A place that there is not, or that was filled.
    #[error("provider {provider} has no empty place {place} in this batch")]
    Place {
        /// The provider, from 0.
        provider: u32,
        /// The place, from 0.
        place: u32,
    },
    /// Not all sounds are there.
    #[error("{missing} sounds of the batch are missing: make them before it is sealed")]
    Incomplete {
        /// How many.
        missing: usize,
    },
    /// Another recognizer than was charged for.
    #[error(
        "provider {provider} was {sealed} when this was charged, and is {now}: what one was to hear another may not"
    )]
    Recipient {
        /// The provider, from 0.
        provider: u32,
        /// Name and address then.
        sealed: String,
        /// Name and address now.
        now: String,
    },
    /// Bits that are not those that were charged.
    #[error("{0} is not what was charged: the disk is failing; the batch must be drawn and paid again")]
    Damaged(PathBuf),
    /// The folder refuses.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A thread ended before its time.
    #[error("a thread that wrote the journal is gone")]
    Thread,
    /// A recognizer refuses the site.
    #[error("{recipient} cannot be asked")]
    Line {
        /// Name and address.
        recipient: String,
        /// Why not.
        #[source]
        source: LineError,
    },
}

/// Permission to seal one batch. It cannot be copied.
#[derive(Debug)]
#[must_use = "without it the sounds cannot leave"]
pub struct BatchPermit {
    /// What is charged for the batch before it leaves; nothing for public data.
    event: Option<Event>,
}

impl BatchPermit {
    /// Uses up the site's permission for the release `made`, which the plan of the batch is.
    ///
    /// # Errors
    /// [`OutboundError::WrongEvent`] when something else was granted. Nothing was charged.
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

/// A sound that may leave, for one recognizer: a canonical WAV file.
#[must_use = "it was cleared to be sent"]
pub struct Outgoing {
    wav: Vec<u8>,
}

impl Outgoing {
    /// The file.
    pub fn wav(&self) -> &[u8] {
        &self.wav
    }

    /// A sound for tests of the lines, which have no site.
    #[cfg(test)]
    pub(crate) const fn in_test(wav: Vec<u8>) -> Self {
        Self { wav }
    }
}

/// How much, never what.
impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outgoing({} bytes)", self.wav.len())
    }
}

/// Where a sound lies, and what it must be.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    provider: u32,
    place: u32,
    /// First byte in the provider's file.
    at: u64,
    bytes: u64,
    /// SHA-256, hex.
    digest: String,
}

/// What makes a draft a batch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    /// SHA-256 of the index, hex.
    index: String,
    /// Name and address of each provider.
    recipients: Vec<String>,
    /// What the batch releases; nothing for public data.
    #[serde(default)]
    event: Option<Event>,
    /// By a worker that paid before it sealed: the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<Signed>,
}

impl Seal {
    /// What the batch releases; nothing for public data.
    fn event(&self) -> Result<Option<Event>, serde_json::Error> {
        match &self.receipt {
            Some(signed) => serde_json::from_str::<Receipt>(&signed.payload).map(|receipt| Some(receipt.event)),
            None => Ok(self.event.clone()),
        }
    }
}

/// A batch of which no bit changes any more. It leaves when it is paid.
#[derive(Debug)]
pub struct Sealed {
    folder: PathBuf,
    seal: Seal,
    event: Option<Event>,
    /// By provider and place.
    rows: Vec<Vec<Row>>,
    sounds: Vec<File>,
    journal: Mutex<Journal>,
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

impl Sealed {
    /// The batch that an earlier life sealed in `folder`; `None` where it sealed none.
    ///
    /// # Errors
    /// [`OutboundError::Damaged`] when it is not what was sealed.
    pub fn open(folder: &Path) -> Result<Option<Self>, OutboundError> {
        let path = seal(folder);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(FolderError::io("read", &path))?,
        };
        let seal: Seal = serde_json::from_slice(&text).map_err(|_| OutboundError::Damaged(path.clone()))?;
        let event = seal.event().map_err(|_| OutboundError::Damaged(path))?;
        let path = index(folder);
        let text = fs::read(&path).map_err(FolderError::io("read", &path))?;
        if hex::encode(Sha256::digest(&text)) != seal.index {
            return Err(OutboundError::Damaged(path));
        }
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let rows: Result<Vec<Row>, _> = lines.map(serde_json::from_slice).collect();
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
        let journal = Mutex::new(Journal::open(folder)?);
        Ok(Some(Self { folder: folder.to_owned(), seal, event, rows, sounds: files, journal }))
    }

    /// What it releases and what must be paid before it leaves; none for public data.
    pub const fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Name and address of each provider, by its number.
    pub fn recipients(&self) -> &[String] {
        &self.seal.recipients
    }

    /// SHA-256 of the list of its sounds, hexadecimal: two batches of one digest are the same, to the bit.
    pub fn digest(&self) -> &str {
        &self.seal.index
    }

    /// Samples of each of a provider's sounds, in the order of their places.
    pub fn lengths(&self, provider: u32) -> impl Iterator<Item = u64> + '_ {
        let rows = self.rows.get(provider as usize).map_or(&[][..], Vec::as_slice);
        rows.iter().map(|row| row.bytes.saturating_sub(HEADER as u64) / 2)
    }

    /// The places of a provider's sounds that are not answered, in order.
    pub fn left(&self, provider: u32) -> Vec<u32> {
        let journal = self.journal();
        let rows = self.rows.get(provider as usize).map_or(&[][..], Vec::as_slice);
        rows.iter().map(|row| row.place).filter(|place| !journal.is_answered(provider, *place)).collect()
    }

    /// How often sounds were sent to a provider, over all lives; more than it has sounds where some were sent again.
    pub fn sent(&self, provider: u32) -> u64 {
        self.journal().sent(provider)
    }

    /// What was answered so far: provider, place, words. By provider and place.
    pub fn answers(&self) -> Vec<(u32, u32, Heard)> {
        self.journal().answers()
    }

    /// Removes everything: the transcript is written, or the job is over.
    ///
    /// # Errors
    /// [`OutboundError::Folder`] when the file system refuses.
    pub fn clear(self) -> Result<(), OutboundError> {
        fs::remove_dir_all(&self.folder).map_err(FolderError::io("remove", &self.folder))?;
        Ok(())
    }

    /// The sound at a place as its recognizer receives it, for the site's own eyes: mono samples at 16 kHz, which nothing here
    /// sends.
    ///
    /// # Errors
    /// [`OutboundError::Place`] where there is no sound, [`OutboundError::Damaged`] when it is not what was charged.
    pub(crate) fn samples(&self, provider: u32, place: u32) -> Result<Vec<f32>, OutboundError> {
        let file = self.file(provider, place)?;
        wav::read(&file).map_err(|_| OutboundError::Damaged(sounds(&self.folder, provider as usize)))
    }

    /// The sound at a place, exactly as it was charged; that it leaves is on disk when this returns.
    fn outgoing(&self, provider: u32, place: u32) -> Result<Outgoing, OutboundError> {
        let wav = self.file(provider, place)?;
        self.journal().note_sent(provider, place)?;
        Ok(Outgoing { wav })
    }

    /// The file at a place, held against its digest.
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

    fn note_answer(&self, provider: u32, place: u32, heard: Heard) -> Result<(), OutboundError> {
        self.journal().note_answer(provider, place, heard)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
