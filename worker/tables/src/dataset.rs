//! A table at the site: codes of rows in Parquet, and their description.
//!
//! A dataset is a folder of `rows/<n>.parquet` ([`TablePart`]), `meta.json` ([`Meta`]), `report.json` (rows that were left
//! out, for the site alone) and `key`, under which units and rows were hashed. It does not change after it was written;
//! [`TableReader::open`] rejects a folder whose content differs from its digest. To change the columns, raise
//! [`FORMAT`].

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::DatasetContent;
use undertone_api::table::TableSchema;
use undertone_worker_site::dataset_meta::{DatasetError, META_FILE};

use crate::part::part_name;
use crate::part_file::PartFile;

pub use crate::part::TablePart;

/// The folder of rows.
pub const ROWS_FOLDER: &str = "rows";
/// Version of the columns.
pub const FORMAT: u32 = 1;

/// The description of a table, without its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`DatasetContent::Table`], which distinguishes it from other datasets.
    pub content: DatasetContent,
    /// Version of the columns, see [`FORMAT`].
    pub format: u32,
    /// The name.
    pub name: String,
    /// The public facts that the steward declared.
    pub schema: TableSchema,
    /// The exact number of rows; it stays at the site.
    pub rows: u64,
    /// The exact number of units; it stays at the site.
    pub units: u64,
    /// The files of rows, in their order.
    pub parts: Vec<TablePart>,
    /// When it was written (RFC 3339, UTC). Not part of the digest.
    pub created: String,
    /// The digest of the content, hexadecimal: the output of `(cd rows && sha256sum *) | sha256sum`.
    pub digest: String,
}

/// Returns the digest of a table of these parts.
pub(crate) fn digest_parts(parts: &[TablePart]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(format!("{}  {}\n", part.digest, part.name));
    }
    hex::encode(hash.finalize())
}

/// Reads the description alone, without opening or checking the content.
///
/// # Errors
/// [`DatasetError`] if there is none, if it is of other content, or of another version.
pub fn read_meta(folder: &Path) -> Result<Meta, DatasetError> {
    /// The fields that every version has.
    #[derive(Deserialize)]
    struct FormatVersion {
        content: DatasetContent,
        format: u32,
    }
    let path = folder.join(META_FILE);
    let text = fs::read(&path).map_err(DatasetError::io("read", &path))?;
    let Ok(FormatVersion { content: DatasetContent::Table, format: found }) = serde_json::from_slice(&text) else {
        return Err(DatasetError::Foreign { path, reason: "it is no table" });
    };
    if found != FORMAT {
        return Err(DatasetError::Version { path, found, supported: FORMAT });
    }
    let damaged = |reason| DatasetError::Damaged { path: path.clone(), reason };
    let meta: Meta =
        serde_json::from_slice(&text).map_err(|source| damaged(format!("unreadable description, {source}")))?;
    if meta.parts.iter().enumerate().any(|(number, part)| part.name != part_name(number)) {
        return Err(damaged("it lists files that are not its own".to_owned()));
    }
    if let Some(violation) = meta.schema.check("schema").first() {
        return Err(damaged(format!("{}: {}", violation.field, violation.message)));
    }
    Ok(meta)
}

/// An open table. Its files stay open, so that a table that replaces it meanwhile cannot mix with it.
#[derive(Debug)]
pub struct TableReader {
    folder: PathBuf,
    meta: Meta,
    files: Vec<PartFile>,
}

impl TableReader {
    /// Opens the table in `folder`, and reads its files once to check their lengths and SHA-256.
    ///
    /// # Errors
    /// [`DatasetError`] with the file and its fault.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        let table = Self::open_unverified(folder)?;
        table.verify()?;
        Ok(table)
    }

    fn open_unverified(folder: &Path) -> Result<Self, DatasetError> {
        let meta = read_meta(folder)?;
        let damaged = |reason: &str| DatasetError::Damaged { path: folder.join(META_FILE), reason: reason.to_owned() };
        if meta.digest != digest_parts(&meta.parts) {
            return Err(damaged("its digest is not that of the files it lists"));
        }
        let rows = meta.parts.iter().try_fold(0_u64, |rows, part| rows.checked_add(part.rows));
        if rows != Some(meta.rows) {
            return Err(damaged("its counts are not those of its files"));
        }
        let rows_folder = folder.join(ROWS_FOLDER);
        let files: Vec<PartFile> =
            meta.parts.iter().map(|part| PartFile::open(&rows_folder, part)).collect::<Result<_, _>>()?;
        Ok(Self { folder: folder.to_path_buf(), meta, files })
    }

    /// Checks that all files are unchanged since they were written.
    pub(crate) fn verify(&self) -> Result<(), DatasetError> {
        self.files.iter().try_for_each(PartFile::check)
    }

    /// Returns the description.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the files of rows.
    pub(crate) fn files(&self) -> &[PartFile] {
        &self.files
    }

    /// Returns the error of a description that its files contradict.
    pub(crate) fn contradict(&self, reason: &str) -> DatasetError {
        DatasetError::Damaged { path: self.folder.join(META_FILE), reason: reason.to_owned() }
    }
}

/// An open table whose files are not hashed yet. [`sum_units`](crate::sums::sum_units) hashes them while it reads them,
/// and returns no sum of a table that was changed.
#[derive(Debug)]
pub struct UnverifiedTable(TableReader);

impl UnverifiedTable {
    /// Opens the table in `folder`, and checks its description and the lengths of its files.
    ///
    /// # Errors
    /// [`DatasetError`] with the file and its fault.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        TableReader::open_unverified(folder).map(Self)
    }

    pub(crate) const fn reader(&self) -> &TableReader {
        &self.0
    }
}
