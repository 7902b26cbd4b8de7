//! Decodes the units of a slice of a part, chunk by chunk.
//!
//! A slice is a range of row groups. It has the units whose first row is in it: it passes over rows of a unit that began
//! before, and reads on to the end of its last unit. So each unit is in one slice, whole, whatever the number of slices.

use std::ops::Range;

use arrow::array::{Array as _, AsArray as _, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use undertone_worker_site::dataset_meta::DatasetError;

use crate::add::MOST_UNIT_ROWS;
use crate::chunk::UnitChunk;
use crate::part::UNIT_BYTES;
use crate::part_file::PartFile;
use crate::rows::UnitId;

/// Rows decoded at once.
const BATCH: usize = 1 << 13;

/// The units of a slice that are still to be read.
pub(crate) struct UnitStream<'a> {
    file: &'a PartFile,
    columns: &'a [usize],
    reader: ParquetRecordBatchReader,
    /// The rows of the slice: in later ones begin units of the next slice.
    rows: u64,
    /// The rows that were decoded.
    position: u64,
    /// The unit of the last row.
    last: Option<UnitId>,
    /// Whether the next rows may be of a unit that began before the slice.
    is_before: bool,
    is_done: bool,
}

impl<'a> UnitStream<'a> {
    /// Opens slice number `slice` of `slices`, for the codes at these positions. Returns `None` for a slice without row
    /// groups.
    pub(crate) fn open(
        file: &'a PartFile,
        columns: &'a [usize],
        slice: usize,
        slices: usize,
    ) -> Result<Option<Self>, DatasetError> {
        let metadata =
            ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).map_err(|error| file.damage(&error))?;
        let groups = metadata.metadata().num_row_groups();
        let own = groups * slice / slices..groups * (slice + 1) / slices;
        if own.is_empty() {
            return Ok(None);
        }
        let last = own.start.checked_sub(1).map(|group| read_last_unit(file, &metadata, group)).transpose()?;
        let rows: u64 = own.clone().map(|group| count_rows(&metadata, group)).sum();
        let codes = columns.iter().map(|column| column_name(*column));
        let names: Vec<String> = codes.chain(["unit".to_owned()]).collect();
        let builder = select_columns(file, &metadata, names.iter().map(String::as_str));
        let reader = builder.with_row_groups((own.start..groups).collect()).with_batch_size(BATCH).build();
        let reader = reader.map_err(|error| file.damage(&error))?;
        Ok(Some(Self { file, columns, reader, rows, position: 0, last, is_before: last.is_some(), is_done: false }))
    }

    /// Replaces the complete units of `chunk` by the next ones. Returns whether there are any.
    pub(crate) fn next_chunk(&mut self, chunk: &mut UnitChunk) -> Result<bool, DatasetError> {
        chunk.discard_units();
        while !self.is_done && chunk.unit_count() == 0 {
            match self.reader.next() {
                Some(batch) => {
                    let batch = batch.map_err(|error| self.file.damage(&error))?;
                    self.append(&CodeBatch::new(self.file, &batch, self.columns)?, chunk);
                }
                None => self.is_done = true,
            }
            if let Some(last) = self.last.filter(|_| self.is_done) {
                chunk.close_unit(last, chunk.all_rows());
            }
            if (chunk.all_rows() - chunk.rows()) as u64 > MOST_UNIT_ROWS {
                return Err(self.file.damage(&format!("a unit has more than {MOST_UNIT_ROWS} rows")));
            }
        }
        Ok(chunk.unit_count() > 0)
    }

    /// Adds the rows of a batch up to the first unit of the next slice.
    fn append(&mut self, batch: &CodeBatch, chunk: &mut UnitChunk) {
        let units = batch.units();
        let mut start = 0;
        if self.is_before {
            start = units.iter().take_while(|unit| Some(**unit) == self.last).count();
            self.is_before = start == units.len();
        }
        let mut end = units.len();
        let before = chunk.all_rows();
        for (row, unit) in units.iter().enumerate().skip(start) {
            if self.last == Some(*unit) {
                continue;
            }
            if self.position + row as u64 >= self.rows {
                end = row;
                self.is_done = true;
                break;
            }
            if let Some(last) = self.last.replace(*unit) {
                chunk.close_unit(last, before + row - start);
            }
        }
        self.position += units.len() as u64;
        // No unit of the slice begins after it.
        self.is_done |= self.is_before && self.position >= self.rows;
        batch.append_rows(start..end, chunk);
    }
}

/// Returns the name of the column of codes at a position.
fn column_name(position: usize) -> String {
    format!("c{position}")
}

/// Returns the number of rows of a row group.
fn count_rows(metadata: &ArrowReaderMetadata, group: usize) -> u64 {
    u64::try_from(metadata.metadata().row_group(group).num_rows()).unwrap_or_default()
}

/// Begins to read columns by their names. The reader leaves out columns that the file lacks.
fn select_columns<'n>(
    file: &PartFile,
    metadata: &ArrowReaderMetadata,
    names: impl Iterator<Item = &'n str>,
) -> ParquetRecordBatchReaderBuilder<PartFile> {
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata.clone());
    let mask = ProjectionMask::columns(builder.parquet_schema(), names);
    builder.with_projection(mask)
}

/// Reads the unit of the last row of a row group.
fn read_last_unit(file: &PartFile, metadata: &ArrowReaderMetadata, group: usize) -> Result<UnitId, DatasetError> {
    let rows = count_rows(metadata, group) as usize;
    let builder = select_columns(file, metadata, std::iter::once("unit")).with_row_groups(vec![group]);
    let reader = builder.with_batch_size(1).with_offset(rows.saturating_sub(1)).with_limit(1).build();
    let mut reader = reader.map_err(|error| file.damage(&error))?;
    let none = || file.damage(&"a row group has no rows");
    let batch = reader.next().ok_or_else(none)?.map_err(|error| file.damage(&error))?;
    CodeBatch::new(file, &batch, &[])?.units().last().copied().ok_or_else(none)
}

/// The arrays of a batch, checked once.
struct CodeBatch {
    units: FixedSizeBinaryArray,
    codes: Vec<Int64Array>,
}

impl CodeBatch {
    fn new(file: &PartFile, batch: &RecordBatch, columns: &[usize]) -> Result<Self, DatasetError> {
        let column =
            |name: &str| batch.column_by_name(name).ok_or_else(|| file.damage(&format!("it has no column {name}")));
        let strange = || file.damage(&"a column is of another type");
        let units = column("unit")?.as_fixed_size_binary_opt().ok_or_else(strange)?.clone();
        if units.value_length() != UNIT_BYTES || units.null_count() > 0 {
            return Err(strange());
        }
        let codes = columns.iter().map(|position| {
            column(&column_name(*position))?.as_primitive_opt::<Int64Type>().cloned().ok_or_else(strange)
        });
        Ok(Self { units, codes: codes.collect::<Result<_, _>>()? })
    }

    /// Returns the unit of each row.
    fn units(&self) -> &[UnitId] {
        let (units, _) = self.units.value_data().as_chunks::<{ UNIT_BYTES as usize }>();
        &units[..self.units.len()]
    }

    fn append_rows(&self, rows: Range<usize>, chunk: &mut UnitChunk) {
        for (column, codes) in self.codes.iter().enumerate() {
            let nulls = codes.nulls();
            let has_code = rows.clone().map(|row| nulls.is_none_or(|nulls| nulls.is_valid(row)));
            chunk.extend_column(column, &codes.values()[rows.clone()], has_code);
        }
        chunk.add_rows(rows.len());
    }
}
