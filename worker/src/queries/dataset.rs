//! A prepared query log: normalized rows in Parquet beside their description.
//!
//! A dataset is a folder of `rows/<n>.parquet` ([`Part`]), `meta.json` ([`Meta`]), `report.json` (what the preparation
//! found, for the site's own eyes) and, where the log has user ids, `key`, with which they were hashed. It is never changed
//! after it was written: the preparation builds it in a hidden folder beside the target and renames the whole, and
//! [`Reader::open`] refuses a folder whose content is not, to the byte, what its digest says. Rows are only ever streamed;
//! nothing here holds more than a few thousand of them. To add a column, raise [`FORMAT`]; older files are then refused by
//! number, not misread.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::Content;
use undertone_privacy::PrivacyUnit;

use super::log::Columns;
use super::normalize::Normalization;
use crate::speech::dataset::{DatasetError, META_FILE, PreparationRecord};

#[cfg(test)]
pub(crate) mod fixture;
pub(super) mod part;
mod rows;
pub(crate) mod user;

pub use part::Part;
pub use rows::{Row, RowRef, Rows};

/// The folder of rows.
pub const ROWS_FOLDER: &str = "rows";
/// The file that holds the key of user ids.
pub const KEY_FILE: &str = "key";
/// Version of the columns.
pub const FORMAT: u32 = 1;

/// What a row may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subset {
    /// To ask about and to learn from.
    Train,
    /// Held out: to measure with, never to learn from.
    Test,
}

/// How much one subset holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Rows.
    pub rows: u64,
    /// Occurrences: the sum of the rows' counts, the same as rows where the log has no counts. The records of the dataset.
    pub occurrences: u64,
    /// Distinct users, to about 1 % (`HyperLogLog`); 0 where there is no column of users.
    pub users: u64,
    /// Distinct texts, to about 1 % (`HyperLogLog`).
    pub texts: u64,
}

/// What a dataset is, without any of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`Content::Queries`]: tells it from a dataset of speech.
    pub content: Content,
    /// Version of the columns, see [`FORMAT`].
    pub format: u32,
    /// The name its owner gave it.
    pub name: String,
    /// What may be asked about and learned from.
    pub train: Counts,
    /// What is held out.
    pub test: Counts,
    /// The labels, in the order of their numbers; empty where the log has none.
    pub labels: Vec<String>,
    /// Which columns of the log became what.
    pub columns: Columns,
    /// What was done to every text. Of two rows whose texts are the same after it, the queries are the same.
    pub normalization: Normalization,
    /// The tables that did it, for whoever has to get the same: versions of Unicode.
    pub unicode: String,
    /// The units that its data keep apart, ascending: what a job may protect.
    pub units: Vec<PrivacyUnit>,
    /// What the preparation computed across units; absent in older descriptions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<PreparationRecord>,
    /// The files of rows, in their order.
    pub parts: Vec<Part>,
    /// When it was written (RFC 3339, UTC). Not part of the digest.
    pub created: String,
    /// The identity of the content, hexadecimal: what `(cd rows && sha256sum *) | sha256sum` shows.
    pub digest: String,
}

impl Meta {
    /// Counts of one subset.
    pub fn subset(&self, subset: Subset) -> Counts {
        match subset {
            Subset::Train => self.train,
            Subset::Test => self.test,
        }
    }

    /// Whether its rows have users.
    pub fn has_users(&self) -> bool {
        self.columns.user.is_some()
    }

    /// Whether its rows may have labels.
    pub fn has_labels(&self) -> bool {
        self.columns.label.is_some()
    }
}

/// The digest of a dataset of these parts.
pub(super) fn digest(parts: &[Part]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(format!("{}  {}\n", part.digest, part.name));
    }
    hex::encode(hash.finalize())
}

/// An open dataset. Costs no memory; every [`Reader::rows`] reads the files anew.
#[derive(Debug, Clone)]
pub struct Reader {
    folder: PathBuf,
    meta: Meta,
}

impl Reader {
    /// Opens the dataset in `folder`, and reads its files once to see that they are whole: lengths and SHA-256.
    ///
    /// # Errors
    /// [`DatasetError`] that names the file and what is wrong with it; nothing is ever read from a doubtful file.
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

    /// What it is.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The rows of a subset, in the order of the log. Memory: one batch of a few thousand rows.
    pub fn rows(&self, subset: Subset) -> Rows {
        let parts = self.meta.parts.iter().map(|part| self.path(part));
        Rows::new(parts.collect(), &self.meta, subset)
    }

    fn path(&self, part: &Part) -> PathBuf {
        self.folder.join(ROWS_FOLDER).join(&part.name)
    }
}

/// That a file is what it was when it was written.
fn check(path: &Path, part: &Part) -> Result<(), DatasetError> {
    let mut file = File::open(path).map_err(DatasetError::io("open", path))?;
    let found = file.metadata().map_err(DatasetError::io("read", path))?.len();
    if found != part.bytes {
        return Err(DatasetError::Length { path: path.to_path_buf(), expected: part.bytes, found });
    }
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).map_err(DatasetError::io("read", path))? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    let found = hex::encode(hash.finalize());
    if found == part.digest {
        Ok(())
    } else {
        Err(DatasetError::Digest { path: path.to_path_buf(), expected: part.digest.clone(), found })
    }
}

/// Reads the description alone, without opening or checking the content: for lists.
///
/// # Errors
/// [`DatasetError`] if there is none, if it is of a dataset of speech, or of another version.
pub fn read_meta(folder: &Path) -> Result<Meta, DatasetError> {
    /// The fields every version has.
    #[derive(Deserialize)]
    struct Versioned {
        content: Content,
        format: u32,
    }
    let path = folder.join(META_FILE);
    let text = fs::read(&path).map_err(DatasetError::io("read", &path))?;
    let Ok(Versioned { content: Content::Queries, format: found }) = serde_json::from_slice(&text) else {
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
