//! The reasons for which a search fails.

use std::path::{Path, PathBuf};

use crate::run::RunError;
use crate::site::folder::FolderError;
use crate::site::gate::NotPublic;
use crate::speech::dataset::DatasetError;
use crate::tables::error::TableError;

/// The reason for a failed search.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The data are not public.
    #[error(transparent)]
    NotPublic(#[from] NotPublic),
    /// The spec or an option is wrong.
    #[error("{0}")]
    Spec(String),
    /// A record of the search has no JSON form.
    #[error("cannot write a record of the search as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The data are not what the model reads.
    #[error(
        "{path} cannot lead the job ({reason}): its model needs a public {expected}; name one with --dataset, or as the \
         first of `participants`"
    )]
    Content {
        /// The examined file.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
        /// What the model reads.
        expected: &'static str,
    },
    /// The data cannot be split.
    #[error(
        "the public data have {groups} {noun} to train on, and {needed} are needed: one for each participant and one to \
         measure on. Plan fewer participants, or let a dataset with more {noun} lead"
    )]
    TooFew {
        /// The number of speakers, or of units of a table.
        groups: usize,
        /// `speakers`, or what the units of a table are.
        noun: &'static str,
        /// The required number.
        needed: usize,
    },
    /// The disk failed.
    #[error("cannot {action} {path}: check that this user may, and that the disk has room")]
    Io {
        /// The failed action, a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The journal of another search.
    #[error("{0} is not the journal of this search, or was changed: remove its folder to begin again")]
    Journal(PathBuf),
    /// The data failed.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The rows of a table cannot be divided.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The spec's own setting, or the warm start, cannot be rehearsed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The time limit was too short.
    #[error("the time was over before the first setting was measured: give more --minutes (the finished part is kept)")]
    Time,
}

impl TuneError {
    /// Returns the conversion of an error of the file system.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
