//! The reasons why a run of `dp_sgd` ends without a result.

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;

use safetensors::SafeTensorError;
use undertone_api::id::DatasetId;
use undertone_proto::vector::VectorError;

use crate::dp::clip::ClipError;
use crate::dp::release::ReleaseError;
use crate::dp::runs::NotDrawn;
use crate::run::RunError;
use crate::run::evaluation::EvaluationError;
use crate::site::clearance::SplitError;
use crate::site::folder::FolderError;
use crate::speech::decode::InputError;
use crate::speech::model::ModelError;
use crate::speech::model::coordinates::CoordinateError;
use crate::tables::error::TableError;

/// The reason why training, its audit or its rehearsal cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// The site's dataset is none of the participants.
    #[error("`{0}` does not take part in this job; only participants run it")]
    NotParticipant(String),
    /// The spec's clip or noise of the dataset is out of range.
    #[error("noise of `{dataset}`: {source}")]
    Noise {
        /// The dataset.
        dataset: String,
        /// The problem.
        source: ClipError,
    },
    /// The manifest has no number of units.
    #[error("the manifest gives `{0}` no units to divide by")]
    NoUnits(String),
    /// The dataset has no training data.
    #[error("`{0}` holds no utterance to train on: all are held out")]
    AllHeldOut(String),
    /// A table has no row with a target.
    #[error("`{0}` holds no row with a value of the target column: none can be trained or measured on")]
    NoTargets(String),
    /// The rows of a table cannot be read.
    #[error(transparent)]
    Table(TableError),
    /// The job protects units that a table does not have.
    #[error(
        "`{0}` is a table, which keeps the values of its column of units apart: propose the job with `unit` `user`"
    )]
    TableUnit(String),
    /// The features of the dataset do not fit the model.
    #[error(
        "`{dataset}` has {coefficients} coefficients a frame, the model takes {inputs}: prepare it with the same \
         features"
    )]
    Inputs {
        /// The dataset.
        dataset: String,
        /// Its coefficients a frame.
        coefficients: usize,
        /// The inputs of the model.
        inputs: usize,
    },
    /// The labels of the dataset do not fit the model.
    #[error(
        "`{dataset}` has {labels} classes, the model only {classes}: propose the job with `model.classes` of at least \
         {labels}"
    )]
    Classes {
        /// The dataset.
        dataset: String,
        /// Its number of classes.
        labels: usize,
        /// The classes of the model.
        classes: usize,
    },
    /// A file of characters is damaged.
    #[error(transparent)]
    Characters(InputError),
    /// A file of characters stands for another number of classes than the job's.
    #[error(
        "{path} stands for {classes} classes with the blank, not for those of the job: prepare all datasets with one \
         characters.json, and propose the job with `model.classes` {classes}"
    )]
    CharacterCount {
        /// The file.
        path: PathBuf,
        /// Its characters and the blank.
        classes: usize,
    },
    /// A test set was prepared with other characters than the lead's training data.
    #[error(
        "the test set `{0}` has other characters than the lead's training data: prepare both with one characters.json"
    )]
    OtherCharacters(String),
    /// The manifest leaves the number of classes open.
    #[error("the manifest does not say how many classes the model has: propose the job again")]
    NoClasses,
    /// The lead would have no training data left.
    #[error(
        "`{dataset}` has {utterances} utterances to train on, and {development} are to be set aside: propose the job \
         with a smaller `selection.development`"
    )]
    DevelopmentSize {
        /// The lead's dataset.
        dataset: String,
        /// Its utterances for training.
        utterances: usize,
        /// The utterances to set aside.
        development: usize,
    },
    /// The development data are not in their format, or cannot be written in it.
    #[error("cannot use the lead's development data: {0}")]
    DevelopmentFile(#[source] SafeTensorError),
    /// The development data contradict themselves or the model.
    #[error("cannot use the lead's development data: {0}")]
    DevelopmentContent(String),
    /// An arm trains nothing.
    #[error("the model has none of the parts that `{0}` is to train: name one that it has in `train`")]
    NoTrainedPart(String),
    /// The parts of an arm cannot be trained as the spec says.
    #[error(transparent)]
    Coordinates(CoordinateError),
    /// The server's average cannot be applied.
    #[error("the average of round {round} of `{series}` is not a finite vector of {length} numbers")]
    UnusableAverage {
        /// The series.
        series: String,
        /// The round.
        round: u32,
        /// The length of the series' vectors.
        length: usize,
    },
    /// The file of the initial model is another one than the manifest names.
    #[error(
        "the initial model has the SHA-256 {digest}, and the manifest names {expected}: propose the job again with a \
         model of the registry"
    )]
    OtherInitialModel {
        /// The digest of the received file.
        digest: String,
        /// The digest that the manifest names.
        expected: String,
    },
    /// The lead's warm start does not continue the initial model.
    #[error(
        "the lead's warm start does not begin with the initial model {0}, which the manifest names: ask the lead to run \
         the job with an unchanged worker"
    )]
    OtherStart(String),
    /// The file of the initial model cannot be trained.
    #[error("cannot begin with the initial model: {0}")]
    InitialModel(#[source] EvaluationError),
    /// The layers of the initial model are not those of the spec.
    #[error(
        "the initial model has `{field}` {file}, and the manifest `model.{field}` {expected}: propose the job with the \
         initial model's value, or choose another model"
    )]
    InitialLayers {
        /// The field of `model`.
        field: &'static str,
        /// Its value in the file.
        file: String,
        /// Its value in the spec.
        expected: String,
    },
    /// The features of the data do not fit the initial model.
    #[error(
        "the initial model takes {file} coefficients a frame, and the lead's data have {data}: prepare the datasets \
         with the features of the initial model, or choose another model"
    )]
    InitialInputs {
        /// The inputs of the initial model.
        file: usize,
        /// The coefficients of the data.
        data: usize,
    },
    /// A rehearsal without the file of its initial model.
    #[error("no file in {0} has the SHA-256 of the spec's `initial_model`: download the model there")]
    NoLocalModel(PathBuf),
    /// A model file is invalid.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A checkpoint has no file form.
    #[error("cannot write the checkpoint: {0}")]
    Checkpoint(#[source] SafeTensorError),
    /// A file of the run cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The clip of a candidate is out of range.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// A selection among single steps.
    #[error("a selection chooses among runs of several local steps: set `local_steps` above 1")]
    SelectionWithoutSteps,
    /// The grant is for another release.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The grant cannot be split into the steps of a round.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The granted selection cannot be drawn.
    #[error(transparent)]
    Selection(#[from] NotDrawn),
    /// The grant has fewer steps than a round.
    #[error("the site grants fewer steps than the {0} of a round")]
    TooFewSteps(NonZeroU32),
    /// The steps of a round were taken without a grant.
    #[error("the site granted nothing for the steps of a round")]
    NothingGranted,
    /// A second request for the permits of one run.
    #[error("the permits of a run are granted once")]
    GrantedOnce,
    /// An audit of exact releases.
    #[error("the manifest promises an audit of releases without noise")]
    AuditWithoutNoise,
    /// A finding without a promised audit.
    #[error("the manifest promises no audit")]
    NoPromisedAudit,
    /// More canaries than parameters.
    #[error("{canaries} canaries do not fit into {parameters} trained parameters")]
    TooManyCanaries {
        /// The canaries.
        canaries: usize,
        /// The trained parameters.
        parameters: usize,
    },
    /// A file of an audit is damaged.
    #[error("{0} is damaged: the audit of this job cannot be finished")]
    DamagedAudit(PathBuf),
    /// A file of an audit cannot be read.
    #[error("cannot read {path}: {source}")]
    AuditFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The secret of the canaries of released rounds is gone.
    #[error(
        "cannot read {path} ({source}), and rounds were released with its canaries: the audit of this job cannot be \
         finished"
    )]
    LostSecret {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The seeds of correlated noise are damaged or not of this job.
    #[error(
        "{0} is damaged, or is not of this job, these data and these terms: this site's part of the job ends, and its charge \
         stands"
    )]
    DamagedNoise(PathBuf),
    /// The seeds of correlated noise cannot be read or removed.
    #[error("cannot use {path}: {source}")]
    UnreadableNoise {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A released round has no seed.
    #[error(
        "{path} has no seed of round {round}, which was released: the noise of later rounds depends on it, so this site's \
         part of the job ends, and its charge stands"
    )]
    LostNoise {
        /// The file.
        path: PathBuf,
        /// The round.
        round: u32,
    },
    /// A round was requested after a later one.
    #[error("noise of round {last} is drawn already, so round {round} cannot be released: propose a new job")]
    NoiseOrder {
        /// The last round with a seed.
        last: u32,
        /// The requested round.
        round: u32,
    },
    /// Randomness of another purpose was to be stored for later rounds.
    #[error("only the secret of a round's correlated noise may be stored for later rounds")]
    NotStepSecret,
    /// Randomness of another purpose was to be stored.
    #[error("only the secret of canaries may be stored")]
    NotCanarySecret,
    /// Evidence of a round before the last recorded one.
    #[error("the audit has recorded round {last} already, so it cannot record round {round}")]
    EvidenceOrder {
        /// The last recorded round.
        last: u32,
        /// The round to record.
        round: u32,
    },
    /// A rehearsal of another kind.
    #[error("only a `dp_sgd` job is rehearsed")]
    OtherKind,
    /// A thread of the rehearsal panicked.
    #[error("a participant of the rehearsal panicked")]
    RehearsalPanic,
    /// The folder of a rehearsal cannot be created.
    #[error("cannot create {path}: {source}")]
    RehearsalFolder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A dataset without a role in the rehearsal.
    #[error("the rehearsal has no dataset {0}")]
    RehearsalDataset(DatasetId),
    /// A vector has no wire form.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The time of a rehearsal job was over before anything was measured.
    #[error(
        "the {minutes} minutes of the rehearsal were over before the plan's own setting was measured once: propose it with \
         more `rehearsal.minutes`, fewer repeats or fewer rounds"
    )]
    RehearsalTime {
        /// The time limit in minutes.
        minutes: u32,
    },
    /// A spec that was to be rehearsed has no rehearsal.
    #[error("the manifest has no rehearsal")]
    NoRehearsal,
    /// There is no stored vector to send again.
    #[error("no vector is stored for round {round} of `{series}`")]
    NothingStored {
        /// The series.
        series: String,
        /// The round.
        round: u32,
    },
}

impl From<TrainingError> for RunError {
    fn from(error: TrainingError) -> Self {
        match error {
            TrainingError::Release(_)
            | TrainingError::Split(_)
            | TrainingError::Selection(_)
            | TrainingError::TooFewSteps(_)
            | TrainingError::NothingGranted
            | TrainingError::GrantedOnce => Self::Refused(error.into()),
            TrainingError::Folder(_) => Self::from_disk_operation(error),
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<ModelError> for RunError {
    fn from(error: ModelError) -> Self {
        TrainingError::from(error).into()
    }
}

impl From<ReleaseError> for RunError {
    fn from(error: ReleaseError) -> Self {
        TrainingError::from(error).into()
    }
}

impl From<SplitError> for RunError {
    fn from(error: SplitError) -> Self {
        TrainingError::from(error).into()
    }
}
