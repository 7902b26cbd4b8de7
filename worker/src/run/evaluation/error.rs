//! The reasons why a model cannot be evaluated. No message states anything of private data.

use std::path::PathBuf;

use undertone_api::job::evaluation::MetricError;
use undertone_api::problem::Violation;
use undertone_onnx::COLUMNS_PROPERTY;
use undertone_worker_encoder::error::EncoderError;

use crate::dp::clip::ClipError;
use crate::dp::release::ReleaseError;
use crate::queries::classifier::ClassifierFileError;
use crate::run::RunError;
use crate::speech::dataset::DatasetError;
use crate::speech::model::ModelError;
use crate::tables::error::TableError;

/// The reason why an evaluation cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The model file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// No model file has the digest.
    #[error(
        "no file in {folder} has the SHA-256 {digest}: download the model there, or propose the job with its digest"
    )]
    UnknownDigest {
        /// The folder of model files.
        folder: PathBuf,
        /// The digest that the spec names.
        digest: String,
    },
    /// This part has no folder of model files.
    #[error("there is no folder of model files here")]
    NoModels,
    /// The lead sent another model.
    #[error("the model from the lead has the SHA-256 {digest}, and the job names {expected}: propose the job again")]
    OtherModel {
        /// The digest of the received file.
        digest: String,
        /// The digest that the spec names.
        expected: String,
    },
    /// The file is a graph where a model of the product is needed.
    #[error(
        "the model is an ONNX graph, which can be evaluated and not used otherwise: use a safetensors file of an Undertone \
         job"
    )]
    Graph,
    /// The file is a graph that cannot be evaluated.
    #[error("the ONNX graph cannot be evaluated: {0}")]
    RefusedGraph(#[source] EncoderError),
    /// A graph reads rows, and nothing names their columns.
    #[error(
        "the ONNX graph reads the rows of a table, and nothing names their columns: name them in `columns` of the spec or \
         with `--columns`, or store them in the graph as `{COLUMNS_PROPERTY}`"
    )]
    UnnamedColumns,
    /// A text holds no columns.
    #[error("{origin} has no columns as JSON, with `target`, `features` and `rows_per_unit`: {source}")]
    ColumnsFormat {
        /// The argument, or the entry of the graph.
        origin: &'static str,
        /// The reason.
        source: serde_json::Error,
    },
    /// The columns of a graph are out of their limits.
    #[error("the columns of the ONNX graph cannot be used: {field}: {message}", field = .0.field, message = .0.message)]
    InvalidColumns(Violation),
    /// The file of the model names its columns, and the spec or the command names other ones.
    #[error(
        "the model's file names its columns, and `columns` of the spec or `--columns` names other ones: leave these out"
    )]
    OtherNames,
    /// Columns are named for a model of speech.
    #[error("the model reads speech, which has no columns: leave out `columns` of the spec or `--columns`")]
    SpeechColumns,
    /// A graph gives another number of scores than its target has values.
    #[error(
        "the ONNX graph gives {outputs} scores for a row, and the target `{target}` needs {expected}: one for each value in \
         their declared order, or 1 for a number"
    )]
    Outputs {
        /// The predicted column.
        target: String,
        /// The scores of a row.
        outputs: usize,
        /// The values of the target, or 1 for a number.
        expected: usize,
    },
    /// The model reads rows of tables.
    #[error(
        "the model reads rows of tables, not speech: use it with `undertone-worker evaluate` or `predict` on a table"
    )]
    RowModel,
    /// A command would overwrite its own input.
    #[error("--output names the input {0}: name another file")]
    OutputIsInput(PathBuf),
    /// The file is a damaged classifier of queries.
    #[error("{0}: download the file again")]
    Classifier(#[source] ClassifierFileError),
    /// The model reads speech.
    #[error("the model reads speech, not rows or queries: use it with `undertone-worker recognize`")]
    SpeechModel,
    /// The file of a model of rows does not name its columns.
    #[error("the model reads rows, and its file does not name their columns: use a file of an Undertone job")]
    NoColumns,
    /// The columns of a file of rows do not give the inputs of its layers.
    #[error("the columns of the model's file do not fit its layers: use a file of an Undertone job")]
    OtherColumns,
    /// The model predicts a number, which has no classes.
    #[error(
        "the model predicts the number `{0}`, which has no classes: a site evaluates it with `undertone-worker evaluate`"
    )]
    NumberTarget(String),
    /// The dataset is no table.
    #[error("the model reads rows, and `{dataset}` is no table: evaluate a table of this site")]
    NoTable {
        /// The dataset.
        dataset: String,
        /// The reason.
        #[source]
        source: DatasetError,
    },
    /// The rows of a table or a file cannot be read.
    #[error(transparent)]
    Table(TableError),
    /// A table has no row with a target.
    #[error("`{0}` has no row with a value of the predicted column")]
    NoTargets(String),
    /// The predictions cannot be written.
    #[error("cannot write the predictions: {0}")]
    Output(#[source] std::io::Error),
    /// The file has a layer that this architecture does not have.
    #[error(
        "the model has the tensor `{0}`, which belongs to no layer of its architecture: it uses an unknown operator"
    )]
    UnknownOperator(String),
    /// The scores of an example would depend on other examples.
    #[error(
        "the model has the tensor `{0}` of a batch normalization: the scores of a unit would depend on other units, so \
         they cannot be protected; use layer norm"
    )]
    BatchDependence(String),
    /// The file is no model of a known architecture.
    #[error(transparent)]
    Architecture(#[from] ModelError),
    /// The features of the dataset do not fit the model.
    #[error(
        "`{dataset}` has {coefficients} coefficients a frame, the model takes {inputs}: prepare it with the features \
         of the model"
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
    #[error("`{dataset}` has {labels} classes, the model {classes}: it was trained on other labels")]
    Classes {
        /// The dataset.
        dataset: String,
        /// Its number of classes.
        labels: usize,
        /// The classes of the model.
        classes: usize,
    },
    /// An evaluated class is none of the model's.
    #[error("the model has the classes 0 to {most}, and the job evaluates {class}")]
    NoClass {
        /// The evaluated class.
        class: u32,
        /// The greatest class of the model.
        most: usize,
    },
    /// The dataset has no aligned labels.
    #[error("`{dataset}` has no labels to compare scores with: evaluate a dataset of speech with aligned labels")]
    NoLabels {
        /// The dataset.
        dataset: String,
        /// The reason.
        #[source]
        source: DatasetError,
    },
    /// The split has no utterance.
    #[error("`{0}` has no utterance to evaluate")]
    NoUtterances(String),
    /// The dataset takes no part.
    #[error("`{0}` does not take part in this job; only participants run it")]
    NotParticipant(String),
    /// The clip or the noise is out of range.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// The grant is for another release.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The average is not a vector of the job.
    #[error(transparent)]
    Average(#[from] MetricError),
    /// The average has no contribution of a site.
    #[error("the round closed without a site's histograms: propose the job again")]
    NoSites,
}

impl From<EvaluationError> for RunError {
    fn from(error: EvaluationError) -> Self {
        match error {
            EvaluationError::Release(_) => Self::Refused(error.into()),
            _ => Self::Failed(error.into()),
        }
    }
}
