//! The description of a dataset, as the site's checks read it, whatever the kind of the dataset.

use std::path::Path;

use undertone_api::dataset::{DatasetContent, Visibility};
use undertone_api::table::TableSchema;
use undertone_privacy::PrivacyUnit;

use super::DatasetError;
use crate::lineage::fingerprint::FingerprintCollector;

/// The description of a dataset of any kind. The crate above defines the kinds.
pub trait DatasetDescription: Sized {
    /// Reads the description of the dataset in `folder`, without opening or checking the content.
    ///
    /// # Errors
    /// [`DatasetError`] if there is none, or if it is of another version.
    fn read(folder: &Path) -> Result<Self, DatasetError>;

    /// Checks that the dataset `name` may be used under the site's policy.
    ///
    /// # Errors
    /// [`DatasetError::PublicOnly`] where the dataset is not public and was prepared with options for public data.
    fn check_visibility(&self, name: &str, visibility: Visibility) -> Result<(), DatasetError>;

    /// Returns the digest of the content, hexadecimal.
    fn digest(&self) -> &str;

    /// Returns the content and its sizes.
    fn into_facts(self, visibility: Visibility) -> DatasetFacts;

    /// Returns whether the dataset is its own source.
    fn is_its_source(&self) -> bool;

    /// Collects the fingerprints of sources and people that the dataset in `folder` itself contains.
    fn derive_fingerprints(&self, folder: &Path, collector: &mut FingerprintCollector);
}

/// The content of a dataset and its exact sizes, which stay at the site.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetFacts {
    /// The kind of content.
    pub content: DatasetContent,
    /// The number of coefficients in a frame; 0 for queries.
    pub inputs: u32,
    /// The number of label classes, as declared where the dataset is not public. For queries 0 unless they are public.
    pub classes: u32,
    /// The number of training records: utterances, or occurrences of queries.
    pub records: u64,
    /// The number of training speakers; 0 for queries.
    pub speakers: u64,
    /// The number of test records.
    pub test_records: u64,
    /// The number of training users; `None` without a column of users.
    pub users: Option<u64>,
    /// Seconds of audio, rounded up; for recordings only.
    pub seconds: Option<u64>,
    /// The declared columns of a table.
    pub table: Option<TableSchema>,
    /// The units that can be protected in the data, ascending.
    pub units: Vec<PrivacyUnit>,
}
