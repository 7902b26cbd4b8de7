//! What descriptions of datasets have in common, of whatever kind they are: their files, what a preparation records, and errors.

use std::path::{Path, PathBuf};

mod preparation;

pub use preparation::{ClassSource, PreparationRecord};

/// The file that holds the description of a dataset as JSON.
pub const META_FILE: &str = "meta.json";
/// The file that holds what the preparation found, for the site's own eyes.
pub const REPORT_FILE: &str = "report.json";

/// Why a dataset could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The file system refused.
    #[error("cannot {action} {path}: check that it exists and that this user may")]
    Io {
        /// What was tried, a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Not a dataset, or not one of this product.
    #[error("{path} is not an Undertone dataset ({reason}); make one with `undertone-worker data prepare`")]
    Foreign {
        /// The file looked at.
        path: PathBuf,
        /// What gave it away.
        reason: &'static str,
    },
    /// Written by another version.
    #[error(
        "{path} has layout version {found}, this worker reads versions up to {supported}: prepare the dataset again"
    )]
    Version {
        /// The file looked at.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that it reads.
        supported: u32,
    },
    /// Shorter or longer than it says it is.
    #[error("{path} is truncated or has grown ({found} bytes, should be {expected}): prepare the dataset again")]
    Length {
        /// The file looked at.
        path: PathBuf,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// Its parts contradict each other.
    #[error("{path} is damaged: {reason}; prepare the dataset again")]
    Damaged {
        /// The file looked at.
        path: PathBuf,
        /// What contradicts.
        reason: String,
    },
    /// The content is not what the description says.
    #[error(
        "{path} has changed since it was written (SHA-256 {found}, should be {expected}): prepare the dataset again"
    )]
    Digest {
        /// The file looked at.
        path: PathBuf,
        /// Digest in `meta.json`.
        expected: String,
        /// Digest of the bytes on disk.
        found: String,
    },
    /// There is no column of users.
    #[error(
        "dataset `{0}` has no column of users: propose the job for `record` or `speaker`, or prepare the dataset with --units"
    )]
    NoUsers(String),
    /// A unit whose rows depend on others.
    #[error(
        "the rows of one {unit} of dataset `{name}` depend on others ({cause}): propose the job for another unit, or prepare \
         the dataset again without that (means by --normalize utterance, a choice by --utterances-from)"
    )]
    Mixed {
        /// The dataset.
        name: String,
        /// The unit.
        unit: &'static str,
        /// The options that make it so.
        cause: String,
    },
    /// Prepared as only public data may be, and not public.
    #[error(
        "dataset `{name}` is not public by policy.toml and was prepared as only public data may be ({cause}): prepare it \
         again with --replace and without that (--classes N declares the classes), or declare it public"
    )]
    PublicOnly {
        /// The dataset.
        name: String,
        /// The options that only public data may be prepared with.
        cause: String,
    },
    /// The target is there already.
    #[error("{0} exists already: choose another place, or --replace it")]
    Exists(PathBuf),
    /// An utterance that cannot be stored.
    #[error("utterance {id} cannot be stored: {reason}")]
    Utterance {
        /// Its id.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl DatasetError {
    /// A refusal of the file system to `action` on `path`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
