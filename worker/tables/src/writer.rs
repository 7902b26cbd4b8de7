//! Writes the rows of a table unit by unit, in parts, and describes the result.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use undertone_api::dataset::DatasetContent;
use undertone_api::table::TableSchema;
use undertone_worker_site::dataset_meta::DatasetError;
use undertone_worker_site::folder::{FolderError, write_durably};

use crate::dataset::{FORMAT, Meta, TablePart, digest_parts};
use crate::error::TableError;
use crate::part::{PART_ROWS, PartWriter};

/// The most rows of a unit: the first ones in the keyed order. The others are left out and counted.
pub const MOST_UNIT_ROWS: u64 = 1 << 16;

/// Writes rows into the parts of a folder. A unit is in one part.
pub(crate) struct TableWriter {
    folder: PathBuf,
    codes: usize,
    part: Option<PartWriter>,
    /// The unit of the last row, and the number of its rows so far.
    last: Option<(u128, u64)>,
    written: WrittenRows,
}

/// The rows of a written table.
#[derive(Default)]
pub(crate) struct WrittenRows {
    parts: Vec<TablePart>,
    units: u64,
    /// Rows beyond [`MOST_UNIT_ROWS`] of their units.
    pub(crate) surplus: u64,
}

impl TableWriter {
    /// Begins to write rows of `codes` codes into `folder`, which must exist.
    pub(crate) fn new(folder: &Path, codes: usize) -> Self {
        Self { folder: folder.to_path_buf(), codes, part: None, last: None, written: WrittenRows::default() }
    }

    /// Adds a row: its unit, and a code for each column. The rows of a unit follow each other.
    pub(crate) fn push(
        &mut self,
        unit: u128,
        cells: impl IntoIterator<Item = Option<i64>>,
    ) -> Result<(), DatasetError> {
        let count = match self.last {
            Some((last, count)) if last == unit => count + 1,
            _ => {
                self.written.units += 1;
                if self.part.as_ref().is_some_and(|part| part.rows() >= PART_ROWS) {
                    self.end_part()?;
                }
                1
            }
        };
        self.last = Some((unit, count));
        if count > MOST_UNIT_ROWS {
            self.written.surplus += 1;
            return Ok(());
        }
        let part = match &mut self.part {
            Some(part) => part,
            none => none.insert(PartWriter::create(&self.folder, self.written.parts.len(), self.codes)?),
        };
        part.push(unit, cells)
    }

    fn end_part(&mut self) -> Result<(), DatasetError> {
        let part = self.part.take().map(PartWriter::finish).transpose()?;
        self.written.parts.extend(part);
        Ok(())
    }

    /// Makes the parts durable.
    pub(crate) fn finish(mut self) -> Result<WrittenRows, DatasetError> {
        self.end_part()?;
        Ok(self.written)
    }
}

impl WrittenRows {
    /// Returns whether there is no row.
    pub(crate) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the description of the table of these rows.
    pub(crate) fn describe(self, name: &str, schema: &TableSchema, created: &str) -> Meta {
        Meta {
            content: DatasetContent::Table,
            format: FORMAT,
            name: name.to_owned(),
            schema: schema.clone(),
            rows: self.parts.iter().map(|part| part.rows).sum(),
            units: self.units,
            digest: digest_parts(&self.parts),
            parts: self.parts,
            created: created.to_owned(),
        }
    }
}

/// Writes a value as JSON, durably.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TableError> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|error| FolderError::io("write", path)(std::io::Error::other(error)))?;
    Ok(write_durably(path, &text)?)
}

/// Removes a folder, if it exists.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), FolderError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(FolderError::io("remove", folder)(error)),
        _ => Ok(()),
    }
}
