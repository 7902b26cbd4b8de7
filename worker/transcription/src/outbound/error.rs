//! Reasons that a batch does not leave.

use std::path::PathBuf;

use undertone_privacy::Event;
use undertone_worker_site::folder::FolderError;

use crate::provider::line::LineError;

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
