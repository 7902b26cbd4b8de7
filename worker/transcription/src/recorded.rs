//! Recorded speech for dummies: recordings of unrelated speech by other people, which anyone may obtain.
//!
//! A classifier that knows a speech engine distinguishes its output from human speech, whatever common voice both are converted
//! to. So a site may use recordings instead. They pass through the same pipeline as transcribed recordings: the same
//! segmenter, the same recognizer, the same vocabulary, without sensitive pieces. A piece with one vocabulary word is a dummy
//! for that word, and a piece without any is a dummy for none; its text is not changed.
//!
//! | module | subject |
//! |---|---|
//! | [`index`] | the recognized words of the recordings, computed once: the only slow step |
//! | [`offer`] | the pieces that may be dummies, for one vocabulary |
//! | [`need`] | the number of pieces that a job reserves |
//! | [`journal`] | the reserved pieces and their recipients, over the site's life |
//! | [`choice`] | the assignment of reserved pieces to dummies |
//! | [`sounds`] | the sound of the pieces |
//!
//! # Requirements
//!
//! * **A piece is sent once.** A provider that receives the same piece in two jobs on different recordings knows that it is a
//!   dummy, because no true piece recurs; the same holds for a piece that it receives twice in one job, or finds in another
//!   provider's batch. So a piece that was reserved for a job is never reserved again, whether it was sent or not and
//!   whichever provider received it. Only where the site permits it, other recognizers may receive it in another job. Pieces
//!   are identified by the digest of their recording and by their samples, so a new index, another vocabulary or a second copy
//!   of a file makes none of them available again.
//! * **Reservations reveal nothing about the plan.** For each word, the site reserves as many pieces as any plan needs except
//!   with probability 2⁻⁴⁰, before the plan is drawn and independently of it. If it reserved exactly the plan's number, then the
//!   remaining number, and a refusal of the next job for lack of pieces, would reveal the number of dummies, and so the
//!   frequency of the word. And if a plan were abandoned because it needs more pieces than there are, the noise of the
//!   remaining plans would have no tail.
//! * **Anyone with the recordings knows their words.** No voice hides the words: a provider that has the same recordings and
//!   searches them for its sounds finds every dummy. So recordings that anyone *may* have, and that no provider has, are worth
//!   more than a famous corpus. The site does not reveal which recordings it uses, not even to the server.
//! * **No other site uses them.** Two sites with the same recordings and a common provider send it the same pieces. So does a
//!   site whose recordings hold the same speech twice in different files. No journal can detect that.
//!
//! This module depends on no job and no server; it logs no text, sample or name of a recording.

pub mod choice;
#[cfg(test)]
mod fixture;
pub mod index;
pub mod journal;
pub mod need;
pub mod offer;
pub mod sounds;
pub mod used_pieces;

use std::path::PathBuf;

use super::recognize::RecognizerError;
use super::segment::LimitError;
use super::segment::cut::CutError;
use undertone_worker_site::folder::FolderError;
use undertone_worker_speech::audio::AudioError;
use undertone_worker_speech::recordings::RecordingError;

/// Reasons that there is no recorded speech.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// There is no complete index.
    #[error("the recorded speech for dummies is not indexed to its end: run `undertone-worker data index-speech`")]
    Unfinished,
    /// The index belongs to another source.
    #[error(
        "the index of the recorded speech is of other {0} than these: run `undertone-worker data index-speech --replace`, which transcribes \
         all of it again"
    )]
    Others(&'static str),
    /// The index differs from the written one.
    #[error("{0} is damaged: run `undertone-worker data index-speech --replace`, which transcribes all of it again")]
    Damaged(PathBuf),
    /// The journal differs from the written one. It is never recreated: pieces would be sent a second time.
    #[error(
        "{path}, line {line}, is damaged: restore the newest copy of it; without it, pieces would be sent a second time"
    )]
    Journal {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A recording is missing or was replaced.
    #[error("the recorded speech changed since its pieces were reserved: restore it, or propose a new job")]
    Gone,
    /// The site's folder failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A recording failed.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The audio of a recording is invalid.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// A piece is missing.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// The segmentation limits are invalid.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// The recognizer failed.
    #[error(transparent)]
    Recognizer(#[from] RecognizerError),
}
