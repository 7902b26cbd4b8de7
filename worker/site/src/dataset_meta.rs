//! Common parts of the descriptions of datasets of every kind: their files, the preparation record, and errors.

use std::path::{Path, PathBuf};

pub(crate) mod description;
mod preparation;

pub use preparation::{ClassSource, PreparationRecord};

/// The file with the description of a dataset, as JSON.
pub const META_FILE: &str = "meta.json";
/// The file with the preparation's report, for the site only.
pub const REPORT_FILE: &str = "report.json";

/// Reasons why a dataset cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The file system returned an error.
    #[error("cannot {action} {path}: check that it exists and that this user may")]
    Io {
        /// The attempted action, a verb.
        action: &'static str,
        /// The path of the action.
        path: PathBuf,
        /// The error.
        #[source]
        source: std::io::Error,
    },
    /// The path is not a dataset of this product.
    #[error("{path} is not an Undertone dataset ({reason}); make one with `undertone-worker data prepare`")]
    Foreign {
        /// The examined file.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The dataset was written by another version.
    #[error(
        "{path} has layout version {found}, this worker reads versions up to {supported}: prepare the dataset again"
    )]
    Version {
        /// The examined file.
        path: PathBuf,
        /// Its layout version.
        found: u32,
        /// The newest supported version.
        supported: u32,
    },
    /// The file is shorter or longer than its header states.
    #[error("{path} is truncated or has grown ({found} bytes, should be {expected}): prepare the dataset again")]
    Length {
        /// The examined file.
        path: PathBuf,
        /// The expected number of bytes.
        expected: u64,
        /// The number of bytes found.
        found: u64,
    },
    /// Parts of the dataset contradict each other.
    #[error("{path} is damaged: {reason}; prepare the dataset again")]
    Damaged {
        /// The examined file.
        path: PathBuf,
        /// The contradiction.
        reason: String,
    },
    /// The content does not match the description.
    #[error(
        "{path} has changed since it was written (SHA-256 {found}, should be {expected}): prepare the dataset again"
    )]
    Digest {
        /// The examined file.
        path: PathBuf,
        /// Digest in `meta.json`.
        expected: String,
        /// Digest of the bytes on disk.
        found: String,
    },
    /// The dataset has no column of users.
    #[error(
        "dataset `{0}` has no column of users: propose the job for `record` or `speaker`, or prepare the dataset with --units"
    )]
    NoUsers(String),
    /// The rows of a unit depend on other units.
    #[error(
        "the rows of one {unit} of dataset `{name}` depend on others ({cause}): propose the job for another unit, or prepare \
         the dataset again without that (means by --normalize utterance, a choice by --utterances-from)"
    )]
    Mixed {
        /// The dataset.
        name: String,
        /// The unit.
        unit: &'static str,
        /// The options that cause the dependence.
        cause: String,
    },
    /// The dataset was prepared with options for public data, and is not public.
    #[error(
        "dataset `{name}` is not public by policy.toml and was prepared as only public data may be ({cause}): prepare it \
         again with --replace and without that (--classes N declares the classes), or declare it public"
    )]
    PublicOnly {
        /// The dataset.
        name: String,
        /// The options that require public data.
        cause: String,
    },
    /// The target already exists.
    #[error("{0} exists already: choose another place, or --replace it")]
    Exists(PathBuf),
    /// An utterance cannot be stored.
    #[error("utterance {id} cannot be stored: {reason}")]
    Utterance {
        /// The utterance's id.
        id: String,
        /// The problem.
        reason: String,
    },
}

impl DatasetError {
    /// Makes an error of the file system for `action` on `path`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
