//! Recorded speech for dummies: people who said something else, somewhere else, and whose recordings anybody may have.
//!
//! What a speech engine says is told from what people say by any classifier that knows the engine, whatever the voice that both are
//! brought to. So a site may have recordings instead. They go the very road of those that are transcribed: cut by the same
//! segmenter, heard by the same recognizer, split at the words of the same vocabulary, without what is sensitive. A piece of them
//! with one word of the vocabulary is a dummy for that word, one with none a dummy for none; what it says is what it says.
//!
//! | file | subject |
//! |---|---|
//! | [`index`] | what was heard in the recordings, made once: the only thing that takes long |
//! | [`offer`] | the pieces that may be dummies, for one vocabulary |
//! | [`need`] | how many of them a job sets aside |
//! | [`journal`] | which were set aside for whom, for the site's life |
//! | [`choice`] | which of those that were set aside becomes which dummy |
//! | [`sounds`] | their sound |
//!
//! # What must hold
//!
//! * **A piece is heard once.** Who gets the same piece in two jobs on different recordings knows it for a dummy, for no true piece
//!   comes again; and so he knows what he finds twice in one job, or finds with somebody else. So a piece that was set aside for a
//!   job is never set aside again, whether it was sent or not and whoever heard it; only where a site says so may other
//!   recognizers hear it in another job. Pieces are known by the digest of their recording and by their samples, so a new index,
//!   another vocabulary or a second copy of a file brings none of them back.
//! * **What is set aside tells nothing of the plan.** As many pieces of each word are set aside as any plan asks for but for a chance of
//!   2⁻⁴⁰, before the plan is drawn and whatever it is. Were it as many as the plan has, then what is left, and whether the
//!   next job is refused for want of it, would tell how many dummies there were, and so how often the word was said. And were a plan
//!   given up because it asks for more than there is, the noise of those that are followed would have no tail.
//! * **Whoever has the recordings knows their words.** No voice hides what is said: a provider that has the same recordings and
//!   looks for what it heard in them finds every dummy. So recordings that anybody *may* have, and nobody at the providers has,
//!   are worth more than a famous corpus; and which they are is told to nobody, the server included.
//! * **Nobody else uses them.** Two sites that have the same recordings and a provider in common send it the same pieces, and so does
//!   a site whose recordings hold the same speech twice in different files. No journal can see that.
//!
//! Nothing here knows a job or a server; no text, sample or name of a recording is logged.

pub mod choice;
#[cfg(test)]
mod fixture;
pub mod index;
pub mod journal;
pub mod need;
pub mod offer;
pub mod sounds;

use std::path::PathBuf;

use super::recognize::RecognizerError;
use super::segment::LimitError;
use super::segment::cut::CutError;
use crate::site::folder::FolderError;
use crate::speech::audio::AudioError;
use crate::speech::recordings::RecordingError;

/// Why there is no recorded speech.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// There is no whole index.
    #[error("the recorded speech for dummies is not indexed to its end: run `undertone-worker data index-speech`")]
    Unfinished,
    /// The index is of something else.
    #[error(
        "the index of the recorded speech is of other {0} than these: run `undertone-worker data index-speech --replace`, which hears \
         all of it again"
    )]
    Others(&'static str),
    /// The index is not what was written.
    #[error("{0} is damaged: run `undertone-worker data index-speech --replace`, which hears all of it again")]
    Damaged(PathBuf),
    /// The journal is not what was written. It is never made again: pieces that were heard would be heard again.
    #[error(
        "{path}, line {line}, is damaged: restore the newest copy of it; without it pieces would be heard a second time"
    )]
    Journal {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A recording that is gone or was replaced.
    #[error("the recorded speech is other than when pieces of it were set aside: put it back, or propose a new job")]
    Gone,
    /// The site's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A recording.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// What is in it.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// A piece that is not there.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// How pieces are cut.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// The recognizer.
    #[error(transparent)]
    Recognizer(#[from] RecognizerError),
}
