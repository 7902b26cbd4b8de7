//! The reasons why a run of `active_learning` ends without a result.

use undertone_api::id::QuestionId;
use undertone_api::job::evaluation::MetricError;
use undertone_privacy::PriceError;

use crate::dp::clip::ClipError;
use crate::dp::release::ReleaseError;
use crate::queries::classifier::{ClassifierError, ClassifierFileError};
use crate::queries::gate::GateError;
use crate::queries::rehearsal::RehearsalError;
use crate::run::{RunError, StopReason};
use crate::site::clearance::SplitError;

/// The reason why a pool or the rounds of the lead cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationError {
    /// The site's dataset is none of the participants.
    #[error("`{0}` does not take part in this job; only participants run it")]
    NotParticipant(String),
    /// The pool of the log cannot be made.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A paid pool is missing.
    #[error(
        "a pool of this log was paid for, and is not at this site any more: a second sample is never drawn; propose \
         a new job"
    )]
    LostPool,
    /// A paid training is missing.
    #[error(
        "a training of this log was paid for, and its classifier is neither at this site nor at the server: it is never \
         made a second time; propose a new job"
    )]
    LostTraining,
    /// The clip or the noise of a private lead or test set.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// A private lead without steps, or with fewer permits than steps.
    #[error("`private_lead.steps` is 0, or the site granted fewer steps: spec and manifest disagree")]
    NoSteps,
    /// The site granted another release than the training.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The release of a training is invalid.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The server returned another vector than a classifier's change.
    #[error("the released classifier has another length than the job's, or a number that is not finite")]
    OtherVector,
    /// A paid measurement is missing.
    #[error(
        "a measurement on this log was paid for, and its histograms are neither at this site nor at the server: they are \
         never made a second time; propose a new job"
    )]
    LostMeasurement,
    /// The lead announces more measurements than the job charges.
    #[error("the lead announces {rounds} measurements, and the job has {planned}: propose the job again")]
    OtherRounds {
        /// The announced measurements.
        rounds: usize,
        /// The measurements of the job.
        planned: u32,
    },
    /// The lead's classifier is not one of this job.
    #[error("`{0}` from the lead has other labels or settings than the job: propose the job again")]
    OtherClassifier(String),
    /// The server returned another vector than the histograms of the job.
    #[error(transparent)]
    Histograms(#[from] MetricError),
    /// The lead's log has no golden set.
    #[error("the lead's log has no row with a label of the job: name its labels in `labels`")]
    NoGoldenSet,
    /// A test set has nothing to measure on.
    #[error("the test set `{0}` has no row with a label of the job: name its labels in `labels`")]
    EmptyTestSet(String),
    /// Training is impossible.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// The trained classifier has no file form.
    #[error(transparent)]
    ClassifierFile(#[from] ClassifierFileError),
    /// A ranking without a classifier.
    #[error("there is no classifier to rank the questions with")]
    NoClassifier,
    /// The journal names a question that no site released.
    #[error("question {0} of an earlier process is in no pool")]
    UnknownQuestion(QuestionId),
    /// The journal names a question twice.
    #[error("question {0} was asked before")]
    RepeatedQuestion(QuestionId),
    /// The rehearsal failed.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
    /// A charge of the manifest has no price.
    #[error(transparent)]
    Price(#[from] PriceError),
}

impl From<AnnotationError> for RunError {
    fn from(error: AnnotationError) -> Self {
        match error {
            AnnotationError::Rehearsal(RehearsalError::Stopped) => Self::Stopped(StopReason::Requested),
            AnnotationError::LostPool
            | AnnotationError::LostTraining
            | AnnotationError::LostMeasurement
            | AnnotationError::Split(_)
            | AnnotationError::Release(_)
            | AnnotationError::Gate(GateError::WrongEvent { .. } | GateError::Unsampled) => Self::Refused(error.into()),
            AnnotationError::Gate(_) | AnnotationError::Rehearsal(_) => Self::from_disk_operation(error),
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<GateError> for RunError {
    fn from(error: GateError) -> Self {
        AnnotationError::from(error).into()
    }
}

impl From<ClassifierError> for RunError {
    fn from(error: ClassifierError) -> Self {
        AnnotationError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::GateError;
    use crate::queries::sample::SampleError;
    use crate::run::RunError;

    #[test]
    fn grant_for_another_release_is_a_refusal() {
        assert!(matches!(RunError::from(GateError::Unsampled), RunError::Refused(_)));
        assert!(matches!(RunError::from(GateError::NoUsers), RunError::Failed(_)));
    }

    #[test]
    fn failure_of_a_gate_keeps_its_cause_for_the_log_only() {
        let disk = GateError::Sample(SampleError::Disk(std::io::Error::other("a platter broke")));
        let RunError::Failed(problem) = RunError::from(disk) else { panic!("it is no refusal") };
        assert!(!problem.to_string().contains("platter"), "{problem}");
        assert!(problem.with_causes().contains("platter"));
    }
}
