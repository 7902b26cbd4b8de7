//! The transcripts of a finished job as a source of other datasets of the site: labels for training, and rows of a query
//! log.
//!
//! Both read the recordings of a dataset and the transcripts that a job wrote for exactly these recordings. The result
//! has the people of the recordings, so it joins their lineage and is charged to the same accounts. The speaker of a
//! recording is the first folder of its name. Recordings outside folders are of one speaker, named as the dataset: a unit
//! that covers too many recordings protects more, never less.
//!
//! A transcript is divided at its silences, so its parts depend on each other. They are no records of their own: speakers
//! are the units of both results.

pub(crate) mod corpus;
pub(crate) mod log;

use std::path::{Path, PathBuf};

use undertone_api::id::JobId;

use super::outcome::{read_digest, transcript_path};
use crate::run::RunError;
use crate::site::folder::{Folder, FolderError, create_private, hidden};
use crate::speech::dataset::DatasetError;
use crate::speech::recordings::{Recording, RecordingError, Recordings};
use crate::speech::transcribe::segment::LimitError;
use crate::speech::transcribe::transcript::TranscriptWord;
use crate::speech::transcribe::transcript::json::{self, TranscriptError};

/// Reasons that transcripts cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FinishedError {
    /// The name of a dataset is invalid, or a file cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The recordings cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The limits of the segmentation are invalid.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// The job's report cannot be read.
    #[error(transparent)]
    Report(#[from] RunError),
    /// The job has no transcripts here.
    #[error("--job {0}: this site has no transcripts of such a job, or the job is not finished")]
    Unfinished(JobId),
    /// The transcripts are of other recordings.
    #[error(
        "--recordings {0}: the job transcribed other recordings, or an earlier version of these: name the dataset of the job, \
         or have the present version transcribed"
    )]
    OtherRecordings(String),
    /// The dataset to make is the source.
    #[error("--name {0}: the recordings have this name; choose another one")]
    SameName(String),
    /// A transcript cannot be read.
    #[error("cannot read {path}: restore it, or have the recordings transcribed again")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A transcript is damaged.
    #[error("{path}: {source}")]
    Transcript {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: TranscriptError,
    },
}

/// The transcripts of a finished job, with its recordings.
pub(crate) struct FinishedTranscripts {
    recordings: Recordings,
    results: PathBuf,
}

impl FinishedTranscripts {
    /// Opens the transcripts that `job` made of the recordings in the dataset `source`, for a dataset called `name`.
    ///
    /// # Errors
    /// [`FinishedError`] when there are none, or they are of other recordings.
    pub(crate) fn open(folder: &Folder, job: JobId, source: &str, name: &str) -> Result<Self, FinishedError> {
        if source == name {
            return Err(FinishedError::SameName(name.to_owned()));
        }
        let recordings = Recordings::open(&folder.dataset(source)?)?;
        let results = folder.transcripts(job);
        let digest = read_digest(&results)?.ok_or(FinishedError::Unfinished(job))?;
        if digest != recordings.meta().digest {
            return Err(FinishedError::OtherRecordings(source.to_owned()));
        }
        Ok(Self { recordings, results })
    }

    /// Returns the recordings, in the order of their names.
    pub(crate) fn recordings(&self) -> &[Recording] {
        &self.recordings.meta().recordings
    }

    /// Returns the speaker of a recording: the first folder of its name, or the dataset's name.
    fn speaker<'a>(&'a self, recording: &'a Recording) -> &'a str {
        recording.name.split_once('/').map_or(self.recordings.meta().name.as_str(), |(speaker, _)| speaker)
    }

    /// Reads the transcript of a recording.
    fn words(&self, recording: &Recording) -> Result<Vec<TranscriptWord>, FinishedError> {
        let path = transcript_path(&self.results, &recording.name, "json").map_err(RunError::from)?;
        let text =
            std::fs::read_to_string(&path).map_err(|source| FinishedError::Read { path: path.clone(), source })?;
        json::read(&text).map_err(|source| FinishedError::Transcript { path, source })
    }
}

/// A hidden folder beside a new dataset, for its owner alone. It is removed with its content when the value is dropped, and by
/// the next command after a crash.
pub(crate) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes an empty folder beside `dataset`.
    ///
    /// # Errors
    /// [`FolderError`] from the file system.
    pub(crate) fn create(dataset: &Path) -> Result<Self, FolderError> {
        let mut path = hidden(dataset).into_os_string();
        path.push(".transcripts");
        let folder = Self(path.into());
        match std::fs::remove_dir_all(&folder.0) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(FolderError::io("remove", &folder.0)(source));
            }
            _ => {}
        }
        create_private(&folder.0)?;
        Ok(folder)
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "cannot remove a folder of transcripts; the next command removes it");
        }
    }
}
