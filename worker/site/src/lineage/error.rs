//! Errors of lineages.

use std::path::PathBuf;

use super::overlap::{DataOverlap, KnownDataset};
use crate::folder::FolderError;
use crate::policy::PolicyError;
use crate::store::StoreError;

/// Reasons why a dataset cannot have the requested lineage, or any.
#[derive(Debug, thiserror::Error)]
pub enum LineageError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The site's folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The policy cannot be read.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The operating system returned no randomness.
    #[error("the operating system gave no randomness for a key or an id")]
    Entropy(#[source] std::io::Error),
    /// The same data already have a budget.
    #[error(
        "{overlap} of these data are in {other} too, whose budget is for life: prepare them with `--continues {}`, so that both are \
         charged to the same accounts, or leave them out{}",
        other.name,
        overlap.hint()
    )]
    Undeclared {
        /// The common data.
        overlap: DataOverlap,
        /// The dataset that has them.
        other: KnownDataset,
    },
    /// The name already has accounts of its own.
    #[error(
        "{overlap} of these data are in {other} too, and `{name}` has accounts of its own already, which no other can join: leave these \
         data out, or prepare them under a new --name with `--continues {}`{}",
        other.name,
        overlap.hint()
    )]
    Apart {
        /// The dataset.
        name: String,
        /// The common data.
        overlap: DataOverlap,
        /// The dataset that has them.
        other: KnownDataset,
    },
    /// The data already have several budgets.
    #[error(
        "these data are partly in {first} and partly in {second}, which have accounts of their own: accounts cannot be joined. Prepare \
         the parts separately, each with the --continues of its own"
    )]
    Several {
        /// The first dataset.
        first: KnownDataset,
        /// The second dataset.
        second: KnownDataset,
    },
    /// Private data would be declared public.
    #[error(
        "{overlap} of these data are in {other} too, which is not public: the same data cannot be both. Leave them out, or change the \
         policy if they are published"
    )]
    Public {
        /// The common data.
        overlap: DataOverlap,
        /// The dataset that has them.
        other: KnownDataset,
    },
    /// The visibility would protect the lineage less under the new name.
    #[error(
        "`{name}` would be {asked}, and `{other}`, which it continues, is {found}: data of one lineage are protected alike; prepare them \
         with --visibility {found}"
    )]
    Visibility {
        /// The dataset.
        name: String,
        /// Its visibility.
        asked: &'static str,
        /// A dataset of the lineage.
        other: String,
        /// The visibility of `other`.
        found: &'static str,
    },
    /// The lineage to continue does not exist.
    #[error(
        "--continues {0}: neither this site nor an imported lineage has a dataset of this name; `undertone-worker lineage show` lists them"
    )]
    Unknown(String),
    /// The dataset would leave its lineage.
    #[error(
        "--continues {continues}: `{name}` has accounts of its own already, and what was spent on them stays spent. A dataset never leaves \
         its lineage: choose a new --name, or leave --continues out"
    )]
    Split {
        /// The dataset.
        name: String,
        /// The dataset that it was to continue.
        continues: String,
    },
    /// The folder's lineage differs from that of its name.
    #[error(
        "the data in {path} are of {other}, and `{name}` has accounts of its own: move them to a folder of another name, or prepare `{name}` again"
    )]
    Moved {
        /// The folder.
        path: PathBuf,
        /// The dataset's name.
        name: String,
        /// A dataset of the folder's lineage.
        other: KnownDataset,
    },
}
