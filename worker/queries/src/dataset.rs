//! A prepared query log: normalized rows in Parquet, and their description.
//!
//! A dataset is a folder of `rows/<n>.parquet` ([`DatasetPart`]), `meta.json` ([`Meta`]), `report.json` (the findings of the
//! preparation, for the site only) and, for a log with user ids, `key`, under which they were hashed. A dataset never
//! changes after it was written. The preparation builds it in a hidden folder next to the target and renames the whole;
//! [`Reader::open`] rejects a folder whose content differs from its digest. Rows are only streamed; nothing here holds
//! more than a few thousand of them. To add a column, raise [`FORMAT`]; older files are then rejected by version and
//! not misread.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::DatasetContent;
use undertone_privacy::PrivacyUnit;

use super::log::ColumnMap;
use undertone_worker_site::dataset_meta::{DatasetError, META_FILE, PreparationRecord};
use undertone_worker_site::normalize::TextNormalization;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub(super) mod part;
mod rows;
pub mod user;

pub use part::DatasetPart;
pub use rows::{DatasetRows, Row, RowRef};

/// The folder of rows.
pub const ROWS_FOLDER: &str = "rows";
/// The file that holds the key of user ids.
pub const KEY_FILE: &str = "key";
/// Version of the columns.
pub const FORMAT: u32 = 1;

/// The permitted use of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subset {
    /// For questions and training.
    Train,
    /// Held out: for measurements, never for training.
    Test,
}

/// The size of one subset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubsetCounts {
    /// Rows.
    pub rows: u64,
    /// Occurrences: the sum of the rows' counts, the same as rows where the log has no counts. The records of the dataset.
    pub occurrences: u64,
    /// Distinct users, to about 1 % (`HyperLogLog`); 0 where there is no column of users.
    pub users: u64,
    /// Distinct texts, to about 1 % (`HyperLogLog`).
    pub texts: u64,
}

/// The description of a dataset, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`DatasetContent::Queries`]: tells it from a dataset of speech.
    pub content: DatasetContent,
    /// Version of the columns, see [`FORMAT`].
    pub format: u32,
    /// The name its owner gave it.
    pub name: String,
    /// The rows for questions and training.
    pub train: SubsetCounts,
    /// The rows that are held out.
    pub test: SubsetCounts,
    /// The labels, in the order of their numbers; empty where the log has none.
    pub labels: Vec<String>,
    /// The mapping of the log's columns.
    pub columns: ColumnMap,
    /// The normalization of every text. Rows with equal normalized texts are the same query.
    pub normalization: TextNormalization,
    /// The versions of the Unicode tables that the normalization used, so that others can reproduce it.
    pub unicode: String,
    /// The units that its data keep apart, ascending: those that a job may protect.
    pub units: Vec<PrivacyUnit>,
    /// Values that the preparation computed across units; absent in older descriptions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<PreparationRecord>,
    /// The files of rows, in their order.
    pub parts: Vec<DatasetPart>,
    /// When it was written (RFC 3339, UTC). Not part of the digest.
    pub created: String,
    /// The digest of the content, hexadecimal: the output of `(cd rows && sha256sum *) | sha256sum`.
    pub digest: String,
}

impl Meta {
    /// Returns the counts of one subset.
    pub fn subset(&self, subset: Subset) -> SubsetCounts {
        match subset {
            Subset::Train => self.train,
            Subset::Test => self.test,
        }
    }

    /// Returns true if its rows have users.
    pub fn has_users(&self) -> bool {
        self.columns.user.is_some()
    }

    /// Returns true if its rows may have labels.
    pub fn has_labels(&self) -> bool {
        self.columns.label.is_some()
    }

    /// Returns true if its labels were declared before its rows were read, so that their number reveals nothing. Of a
    /// description without a record of its preparation this is unknown.
    pub fn has_declared_labels(&self) -> bool {
        self.has_labels() && self.preparation.as_ref().is_some_and(|record| record.across_units.is_empty())
    }
}

/// Returns the digest of a dataset of these parts.
pub(super) fn digest(parts: &[DatasetPart]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(format!("{}  {}\n", part.digest, part.name));
    }
    hex::encode(hash.finalize())
}

/// An open dataset. It holds no rows in memory; every [`Reader::rows`] reads the files again.
#[derive(Debug, Clone)]
pub struct Reader {
    folder: PathBuf,
    meta: Meta,
}

impl Reader {
    /// Opens the dataset in `folder`, and reads its files once to check their lengths and SHA-256.
    ///
    /// # Errors
    /// [`DatasetError`] naming the file and its fault. No rows are ever read from a file that failed the check.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        let meta = read_meta(folder)?;
        let path = folder.join(META_FILE);
        if meta.digest != digest(&meta.parts) {
            let reason = "its digest is not that of the files it lists".to_owned();
            return Err(DatasetError::Damaged { path, reason });
        }
        let rows: u64 = meta.parts.iter().map(|part| part.rows).sum();
        if rows != meta.train.rows + meta.test.rows {
            return Err(DatasetError::Damaged { path, reason: "its counts are not those of its files".to_owned() });
        }
        let reader = Self { folder: folder.to_path_buf(), meta };
        for part in &reader.meta.parts {
            check(&reader.path(part), part)?;
        }
        Ok(reader)
    }

    /// Returns the description.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the rows of a subset, in the order of the log. Memory: one batch of a few thousand rows.
    pub fn rows(&self, subset: Subset) -> DatasetRows {
        let parts = self.meta.parts.iter().map(|part| self.path(part));
        DatasetRows::new(parts.collect(), &self.meta, subset)
    }

    fn path(&self, part: &DatasetPart) -> PathBuf {
        self.folder.join(ROWS_FOLDER).join(&part.name)
    }
}

/// Checks that a file is unchanged since it was written.
fn check(path: &Path, part: &DatasetPart) -> Result<(), DatasetError> {
    let mut file = File::open(path).map_err(DatasetError::io("open", path))?;
    let length = file.metadata().map_err(DatasetError::io("read", path))?.len();
    if length != part.bytes {
        return Err(DatasetError::Length { path: path.to_path_buf(), expected: part.bytes, found: length });
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(DatasetError::io("read", path))? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    let digest = hex::encode(hash.finalize());
    if digest == part.digest {
        Ok(())
    } else {
        Err(DatasetError::Digest { path: path.to_path_buf(), expected: part.digest.clone(), found: digest })
    }
}

/// Reads the description alone, without opening or checking the content: for lists.
///
/// # Errors
/// [`DatasetError`] if there is none, if it is of a dataset of speech, or of another version.
pub fn read_meta(folder: &Path) -> Result<Meta, DatasetError> {
    /// The fields that every version has.
    #[derive(Deserialize)]
    struct FormatVersion {
        content: DatasetContent,
        format: u32,
    }
    let path = folder.join(META_FILE);
    let text = fs::read(&path).map_err(DatasetError::io("read", &path))?;
    let Ok(FormatVersion { content: DatasetContent::Queries, format: found }) = serde_json::from_slice(&text) else {
        return Err(DatasetError::Foreign { path, reason: "it does not hold queries" });
    };
    if found != FORMAT {
        return Err(DatasetError::Version { path, found, supported: FORMAT });
    }
    let damaged = |reason| DatasetError::Damaged { path: path.clone(), reason };
    let meta: Meta =
        serde_json::from_slice(&text).map_err(|source| damaged(format!("unreadable description, {source}")))?;
    if meta.parts.iter().any(|part| !part::is_name(&part.name)) {
        return Err(damaged("it lists files that are not its own".to_owned()));
    }
    Ok(meta)
}

#[cfg(test)]
mod tests;
