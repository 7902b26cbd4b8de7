//! The reasons why a recording cannot be recognized.

use std::path::PathBuf;

use crate::run::evaluation::EvaluationError;
use crate::speech::audio::{AudioError, RATE};
use crate::speech::dataset::DatasetError;
use crate::speech::decode::{InputError, NetworkError};
use crate::speech::prepare::ClassMapError;

/// The reason why recognition failed.
#[derive(Debug, thiserror::Error)]
pub enum RecognitionError {
    /// The model file cannot be read.
    #[error("cannot read the model {path}: {source}")]
    Model {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is no model, or does not fit the dataset.
    #[error(transparent)]
    Unusable(#[from] EvaluationError),
    /// The dataset cannot be opened.
    #[error("--dataset: `{name}` has no labels of speech: name a dataset that `data prepare` made of recordings")]
    Dataset {
        /// The dataset.
        name: String,
        /// The reason.
        #[source]
        source: DatasetError,
    },
    /// No features have this number of coefficients.
    #[error("the model takes {0} coefficients a frame; 13, 26 and 39 are computed from a recording")]
    Features(usize),
    /// The labels are those of another model.
    #[error(
        "the label files name {labels} classes, the model has {classes}: give the phone map, class map or characters of \
         the data that the model was trained on (--phone-map, --class-map, --characters)"
    )]
    Labels {
        /// The classes of the files.
        labels: usize,
        /// The classes of the model.
        classes: usize,
    },
    /// Characters are of CTC models.
    #[error(
        "the model was trained on a label for each frame (cross_entropy), and characters are the labels of a CTC model: give \
         its phone map, or a model of a job with `\"loss\": \"ctc\"`"
    )]
    NoCharacters,
    /// A CTC model has characters.
    #[error("the model was trained with CTC, and its classes are characters: give their file in place of a phone map")]
    NoPhones,
    /// A language model needs a lexicon.
    #[error("--lm needs --lexicon: the pronunciations of its words")]
    NoLexicon,
    /// A lexicon needs labels.
    #[error(
        "--lexicon needs the meaning of the model's classes: give --phone-map (a dataset's phones.json, or the `mdef` of the \
         aligner's model), --characters for a CTC model, or --dataset"
    )]
    NoLabels,
    /// A file of labels, a lexicon or a language model is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The class map is invalid.
    #[error(transparent)]
    ClassMap(#[from] ClassMapError),
    /// Lexicon, language model and labels do not fit.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The recording cannot be decoded.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// The recording has fewer frequencies than the features.
    #[error(
        "{path}: recorded at {rate} Hz, and the features need {RATE} Hz: record at that rate, or give --upsample for a \
         model that was trained on such recordings"
    )]
    NarrowBand {
        /// The recording.
        path: PathBuf,
        /// Its rate, Hz.
        rate: u32,
    },
    /// The recording is shorter than a frame.
    #[error("{path}: {seconds:.3} s, shorter than one frame of 25 ms: record more")]
    TooShort {
        /// The recording.
        path: PathBuf,
        /// Its length, seconds.
        seconds: f64,
    },
    /// The transcripts beside a recording cannot be read.
    #[error("--references: cannot read the `*.trans.txt` beside {path}: {source}")]
    References {
        /// The recording.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A recording has no transcript.
    #[error("--references: no `*.trans.txt` beside {path} has a line for it; a line is `ID TEXT`")]
    NoReference {
        /// The recording.
        path: PathBuf,
    },
}
