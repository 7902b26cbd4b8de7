//! The end of a run without a result: its consequence ([`RunError`]) and its cause ([`RunProblem`]).
//!
//! A message alone is what may leave the site. Its causes are for the site's own log ([`RunProblem::with_causes`]).

use std::error::Error;

use super::active_learning::AnnotationError;
use super::analytics::AnalyticsError;
use super::dp_sgd::error::TrainingError;
use super::evaluation::EvaluationError;
use super::transcription::TranscriptionError;
use crate::site::folder::FolderError;
use crate::site::store::is_disk_failure;
use crate::speech::dataset::DatasetError;

/// The end of a run without a result, by its consequence.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The job was cancelled, or the lease was lost: stop quietly, keep the work folder.
    #[error("the job was stopped: {0}")]
    Stopped(StopReason),
    /// The site's ledger or policy refuses to continue. The proposer reads the message.
    #[error("the site refuses: {0}")]
    Refused(#[source] RunProblem),
    /// The site's disk is full or fails: the part waits, and resumes as after a crash once the disk is repaired.
    #[error(transparent)]
    Disk(RunProblem),
    /// The data, the spec or the machine have a problem.
    #[error(transparent)]
    Failed(RunProblem),
}

/// The reason of a stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The exchange is stopped.
    #[error("the worker was asked to stop")]
    Requested,
    /// The lease ended, or the site holds the job.
    #[error("{0}")]
    Site(String),
    /// A rehearsal has reached its last round.
    #[error("the rehearsal has reached its last round")]
    RehearsalRound,
    /// A rehearsal was ended by a failure or by its deadline.
    #[error("the rehearsal is over")]
    RehearsalOver,
}

impl From<String> for StopReason {
    fn from(reason: String) -> Self {
        Self::Site(reason)
    }
}

/// The cause of a refusal or of a failure, with its own causes.
#[derive(Debug, thiserror::Error)]
pub enum RunProblem {
    /// A problem of `dp_sgd`.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// A problem of `active_learning`.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    /// A problem of `transcription`.
    #[error(transparent)]
    Transcription(#[from] TranscriptionError),
    /// A problem of `evaluation`.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// A problem of `analytics`.
    #[error(transparent)]
    Analytics(#[from] AnalyticsError),
    /// A dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A file of the run cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A record of the run has no JSON form.
    #[error("cannot write a record of the run as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A problem of the site around the run: its ledger, its policy, its disk, or its connection to the server.
    #[error(transparent)]
    Site(Box<dyn Error + Send + Sync>),
}

impl RunProblem {
    /// Returns the message followed by its causes, each once. For the site's own log only: a cause may name what the
    /// message withholds from others.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let message = error.to_string();
            if !text.contains(&message) {
                text = format!("{text}: {message}");
            }
            cause = error.source();
        }
        text
    }
}

impl RunError {
    /// Returns the refusal of the site, for a reason that the proposer may read.
    pub fn refused(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(RunProblem::Site(cause.into()))
    }

    /// Returns the failure of the site's part of a run.
    pub fn failed(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(RunProblem::Site(cause.into()))
    }

    /// Converts an error of the site to the end of a run: the part waits after a disk failure, and fails otherwise.
    pub(crate) fn from_failure(error: impl Error + Send + Sync + 'static) -> Self {
        let is_disk = is_disk_failure(&error);
        let problem = RunProblem::Site(Box::new(error));
        if is_disk { Self::Disk(problem) } else { Self::Failed(problem) }
    }

    /// Converts the problem of an operation on the site's disk: the part waits after a disk failure, and fails
    /// otherwise.
    pub(super) fn from_disk_operation(problem: impl Into<RunProblem>) -> Self {
        let problem = problem.into();
        if is_disk_failure(&problem) { Self::Disk(problem) } else { Self::Failed(problem) }
    }
}

impl From<DatasetError> for RunError {
    fn from(error: DatasetError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<FolderError> for RunError {
    fn from(error: FolderError) -> Self {
        Self::from_disk_operation(error)
    }
}

impl From<serde_json::Error> for RunError {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::{RunError, RunProblem};
    use crate::run::dp_sgd::error::TrainingError;
    use crate::site::folder::FolderError;

    fn full_disk() -> FolderError {
        FolderError::io("write", Path::new("work/private.checkpoint"))(io::ErrorKind::StorageFull.into())
    }

    #[test]
    fn message_of_a_problem_has_its_causes_for_the_log_only() {
        let problem = RunProblem::from(full_disk());
        let cause = io::Error::from(io::ErrorKind::StorageFull).to_string();
        assert!(!problem.to_string().contains(&cause), "{problem}");
        assert_eq!(problem.with_causes(), format!("{problem}: {cause}"));
    }

    #[test]
    fn message_that_states_its_cause_is_not_repeated() {
        let RunError::Refused(problem) = RunError::refused("no budget") else { panic!("it is a refusal") };
        assert_eq!(problem.with_causes(), "no budget");
        assert_eq!(RunError::Refused(problem).to_string(), "the site refuses: no budget");
    }

    #[test]
    fn full_disk_below_any_problem_pauses_the_run() {
        assert!(matches!(RunError::from(full_disk()), RunError::Disk(_)));
        assert!(matches!(RunError::from_failure(full_disk()), RunError::Disk(_)));
        assert!(matches!(RunError::from(TrainingError::from(full_disk())), RunError::Disk(_)));
        let name = FolderError::Name("..".to_owned());
        assert!(matches!(RunError::from(name), RunError::Failed(_)));
    }
}
