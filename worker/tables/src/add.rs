//! Adds a table to the site: reads its sources, encodes and sorts the rows, and writes the dataset.
//!
//! The result for a row depends on that row and the declarations, and the rows of a unit depend on that unit alone. A
//! crash leaves either the previous table or the new one, complete.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use time::UtcOffset;
use undertone_api::table::TableSchema;
use undertone_worker_site::dataset_meta::{DatasetError, META_FILE, REPORT_FILE};
use undertone_worker_site::folder::{create_private, exchange, recover, sync_folder, write_durably};
use undertone_worker_site::lineage::{LineageIntake, LineageMarker};
use undertone_worker_site::progress::ProgressReporter;

use crate::dataset::{ROWS_FOLDER, read_meta};
use crate::encode::{RowEncoder, to_source_schema};
use crate::error::TableError;
use crate::key::{KEY, TableKey};
use crate::quarantine::{Quarantine, RejectReason, RejectedRow};
use crate::sort::{RowShape, RowSorter, SORT_MEMORY, SortedRows};
use crate::source::{SourceOptions, SourceRow, SourceStep, open_source};
use crate::value::{ColumnEncoder, SourceValue};
use crate::writer::{TableWriter, WrittenRows, remove_folder, write_json};

pub use crate::writer::MOST_UNIT_ROWS;

/// The folder of sorted runs, removed at the end.
const RUNS: &str = "runs";
/// Rows between two updates of the progress.
const STRIDE: u64 = 1 << 14;

/// A table to add.
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// The sources.
    pub sources: SourceOptions,
    /// The declared facts.
    pub schema: TableSchema,
    /// The offset from UTC of the clocks whose dates count, for times that name a zone.
    pub zone: Option<UtcOffset>,
    /// The folder of the dataset.
    pub output: PathBuf,
    /// The name of the dataset.
    pub name: String,
    /// True to replace an existing dataset.
    pub replace: bool,
    /// The current time (RFC 3339, UTC).
    pub created: String,
    /// Random bytes for the key of a table that has none.
    pub fresh_key: [u8; KEY],
}

/// The result of an addition, for the site alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddReport {
    /// Rows of the table.
    pub rows: u64,
    /// Units of the table.
    pub units: u64,
    /// Rows beyond [`MOST_UNIT_ROWS`] of their units.
    pub surplus: u64,
    /// The rows that were left out.
    pub quarantine: Quarantine,
}

/// Prints the result for the terminal.
impl fmt::Display for AddReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, units, surplus, quarantine } = self;
        write!(f, "Rows read       {}\nRows            {rows}\nUnits           {units}", quarantine.read)?;
        write!(f, "\nLeft out        {}", quarantine.summary())?;
        if *surplus > 0 {
            write!(f, "\nSurplus         {surplus} rows beyond {MOST_UNIT_ROWS} of a unit")?;
        }
        for (column, count) in &quarantine.undeclared {
            write!(f, "\nUndeclared      {count} values of `{column}`, which count as missing")?;
        }
        Ok(())
    }
}

/// Adds a table, or replaces it by a new version.
///
/// # Errors
/// [`TableError`] with the column, file or limit and the remedy. Then the previous table is in its place.
pub fn add(
    options: &AddOptions,
    intake: Option<&mut LineageIntake>,
    progress: &dyn ProgressReporter,
) -> Result<AddReport, TableError> {
    add_table(options, None, intake, progress)
}

/// Adds a table whose last columns an encoder computes, or replaces a table by it. A table may be replaced by one of
/// another encoder, because its accounts continue with its units.
///
/// # Errors
/// As [`add`].
pub fn add_encoded(
    options: &AddOptions,
    encoder: &dyn RowEncoder,
    intake: Option<&mut LineageIntake>,
    progress: &dyn ProgressReporter,
) -> Result<AddReport, TableError> {
    add_table(options, Some(encoder), intake, progress)
}

fn add_table(
    options: &AddOptions,
    encoder: Option<&dyn RowEncoder>,
    intake: Option<&mut LineageIntake>,
    progress: &dyn ProgressReporter,
) -> Result<AddReport, TableError> {
    if let Some(violation) = options.schema.check("schema").first() {
        return Err(TableError::Schema(format!("{}: {}", violation.field, violation.message)));
    }
    recover(&options.output)?;
    let key = find_key(options)?;
    let above = options.output.parent().unwrap_or(Path::new("."));
    create_private(above)?;
    // Hidden until complete.
    let growing = above.join(format!(".{}.growing", options.name));
    remove_folder(&growing)?;
    let reading = TableReading::new(options, encoder, &key, &growing.join(RUNS));
    let outcome = write_table(reading, &growing, intake, progress);
    if outcome.is_ok() {
        // After a failure both folders stay, because it is unknown which of them the disk has under the name. The next
        // call removes the remaining one.
        exchange(&growing, &options.output)?;
    }
    // The incomplete folder, or the replaced one.
    remove_folder(&growing)?;
    outcome
}

/// Checks that the place is free or may be replaced, and returns the key of the table there, or a new one.
fn find_key(options: &AddOptions) -> Result<TableKey, TableError> {
    let place = &options.output;
    if place.symlink_metadata().is_err() {
        return Ok(TableKey::new(options.fresh_key));
    }
    if !options.replace {
        return Err(DatasetError::Exists(place.clone()).into());
    }
    let before = read_meta(place)?;
    if before.schema.unit_column != options.schema.unit_column {
        return Err(TableError::UnitColumn {
            name: options.name.clone(),
            before: format!("`{}`", before.schema.unit_column),
        });
    }
    // With the same key the same rows of a unit count in the new version.
    Ok(TableKey::read(place)?.unwrap_or_else(|| TableKey::new(options.fresh_key)))
}

fn write_table(
    mut reading: TableReading,
    folder: &Path,
    mut intake: Option<&mut LineageIntake>,
    progress: &dyn ProgressReporter,
) -> Result<AddReport, TableError> {
    let rows_folder = folder.join(ROWS_FOLDER);
    let runs = folder.join(RUNS);
    create_private(&rows_folder)?;
    create_private(&runs)?;
    let options = reading.options;
    let key = reading.key;
    for source in 0..options.sources.count() {
        reading.read_source(source, intake.as_deref_mut(), progress)?;
    }
    let TableReading { sorter, quarantine, .. } = reading;
    let table = write_parts(sorter.finish()?, &rows_folder, options.schema.code_count())?;
    remove_folder(&runs)?;
    if table.is_empty() {
        return Err(TableError::Nothing { rows: quarantine.read, summary: quarantine.summary() });
    }
    sync_folder(&rows_folder)?;
    key.write(folder)?;
    if let Some(intake) = intake {
        let marker = intake.admit().map_err(|error| TableError::Lineage(Box::new(error)))?;
        write_durably(&folder.join(LineageMarker::FILE), &marker.to_json())?;
    }
    let surplus = table.surplus;
    let meta = table.describe(&options.name, &options.schema, &options.created);
    let report = AddReport { rows: meta.rows, units: meta.units, surplus, quarantine };
    write_json(&folder.join(REPORT_FILE), &report)?;
    write_json(&folder.join(META_FILE), &meta)?;
    Ok(report)
}

/// The state of reading rows from the sources to the sorter.
struct TableReading<'a> {
    options: &'a AddOptions,
    key: &'a TableKey,
    encoder: Option<&'a dyn RowEncoder>,
    source_schema: TableSchema,
    encoders: Vec<ColumnEncoder>,
    shape: RowShape,
    sorter: RowSorter,
    quarantine: Quarantine,
    cells: Vec<Option<i64>>,
    bytes: Vec<u8>,
}

impl<'a> TableReading<'a> {
    fn new(options: &'a AddOptions, encoder: Option<&'a dyn RowEncoder>, key: &'a TableKey, runs: &Path) -> Self {
        let schema = &options.schema;
        let source_schema = encoder.map_or_else(|| schema.clone(), |encoder| to_source_schema(schema, encoder));
        let shape = RowShape::new(options.schema.code_count());
        let encoders =
            options.schema.columns.iter().map(|column| ColumnEncoder::new(&column.kind, options.zone)).collect();
        Self {
            options,
            key,
            encoder,
            source_schema,
            encoders,
            shape,
            sorter: RowSorter::new(runs, shape, SORT_MEMORY),
            quarantine: Quarantine::default(),
            cells: Vec::new(),
            bytes: Vec::new(),
        }
    }

    fn read_source(
        &mut self,
        number: usize,
        mut intake: Option<&mut LineageIntake>,
        progress: &dyn ProgressReporter,
    ) -> Result<(), TableError> {
        let mut source = open_source(&self.options.sources, number, &self.source_schema)?;
        progress.start("Reading rows", 0);
        let mut row = SourceRow::default();
        loop {
            let outcome = match source.next_row(&mut row)? {
                SourceStep::End => break,
                SourceStep::Rejected(reason) => Err((reason, None)),
                SourceStep::Row => self.encode_row(&mut row),
            };
            self.quarantine.read += 1;
            if self.quarantine.read.is_multiple_of(STRIDE) {
                progress.advance(STRIDE);
            }
            match outcome {
                Ok(unit) => {
                    let hash = self.key.hash_unit(&unit);
                    self.sorter.push(hash, self.key.place_row(hash, &self.bytes), &self.bytes)?;
                    if let Some(intake) = intake.as_deref_mut() {
                        intake.add_person(&unit);
                    }
                }
                Err((reason, column)) => {
                    self.quarantine.reject(reason, RejectedRow { source: number, line: source.line(), column });
                }
            }
        }
        progress.finish();
        Ok(())
    }

    /// Encodes the values of a row into `bytes`, and returns the id of its unit; else the reason and the column.
    fn encode_row(&mut self, row: &mut SourceRow) -> Result<String, (RejectReason, Option<String>)> {
        let unit = read_unit(&row.unit).map_err(|reason| (reason, Some(self.options.schema.unit_column.clone())))?;
        if let Some(encoder) = self.encoder {
            let inputs = row.values.split_off(self.options.schema.columns.len().saturating_sub(encoder.width()));
            let numbers = encoder.encode(&inputs).map_err(|reason| (reason, None))?;
            row.values.extend(numbers.into_iter().map(|number| SourceValue::Real(number.into())));
        }
        self.cells.clear();
        for (encoder, (value, column)) in self.encoders.iter().zip(row.values.iter().zip(&self.options.schema.columns))
        {
            let is_declared =
                encoder.encode_codes(value, &mut self.cells).map_err(|reason| (reason, Some(column.name.clone())))?;
            if !is_declared {
                self.quarantine.note_undeclared(&column.name);
            }
        }
        self.bytes.clear();
        self.shape.encode_cells(&self.cells, &mut self.bytes);
        Ok(unit)
    }
}

/// Returns the id of a unit.
fn read_unit(value: &SourceValue) -> Result<String, RejectReason> {
    match value {
        SourceValue::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        SourceValue::Integer(id) => Ok(id.to_string()),
        SourceValue::LongText => Err(RejectReason::LongUnit),
        SourceValue::NoText => Err(RejectReason::Encoding),
        SourceValue::LargeInteger => Err(RejectReason::Integer),
        _ => Err(RejectReason::NoUnit),
    }
}

fn write_parts(mut rows: SortedRows, folder: &Path, codes: usize) -> Result<WrittenRows, TableError> {
    let mut writer = TableWriter::new(folder, codes);
    while let Some(row) = rows.next_row()? {
        writer.push(row.unit(), row.cells())?;
    }
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests;
