//! Streams the units of a table: the rows of one unit at a time, in keyed order, with the columns that a job uses.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use arrow::array::{Array, AsArray, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use undertone_api::table::TableColumn;
use undertone_worker_site::dataset_meta::DatasetError;

use crate::dataset::TableReader;
use crate::error::TableError;
use crate::part::UNIT_BYTES;

/// Rows decoded at once.
const BATCH: usize = 1 << 13;

/// The rows of one unit, in keyed order. At most [`MOST_UNIT_ROWS`](crate::add::MOST_UNIT_ROWS).
#[derive(Debug, Default)]
pub struct UnitRows {
    id: [u8; UNIT_BYTES as usize],
    codes: Vec<Option<i64>>,
    width: usize,
    count: usize,
}

impl UnitRows {
    /// Returns the unit's id: a keyed hash of the owner's. Never leaves the site.
    pub const fn id(&self) -> [u8; UNIT_BYTES as usize] {
        self.id
    }

    /// Returns the codes of each row, in the order of the job's columns: one of each column, or several of a text.
    pub fn rows(&self) -> impl Iterator<Item = &[Option<i64>]> + Clone {
        (0..self.count).map(|row| &self.codes[row * self.width..(row + 1) * self.width])
    }

    fn clear(&mut self) {
        self.codes.clear();
        self.count = 0;
    }
}

impl TableReader {
    /// Returns the positions of the codes of a job's columns in this table.
    ///
    /// # Errors
    /// [`TableError::NoColumn`] if the table has no such column, and [`TableError::OtherSchema`] if it declares the column
    /// otherwise.
    pub fn find_columns(&self, columns: &[TableColumn]) -> Result<Vec<usize>, TableError> {
        let find = |column: &TableColumn| match self.meta().schema.find_column(&column.name) {
            Some((position, kind)) if *kind == column.kind => Ok(self.meta().schema.code_positions(position)),
            Some(_) => Err(TableError::OtherSchema { name: self.meta().name.clone(), column: column.name.clone() }),
            None => Err(TableError::NoColumn { name: self.meta().name.clone(), column: column.name.clone() }),
        };
        let ranges: Vec<Range<usize>> = columns.iter().map(find).collect::<Result<_, _>>()?;
        Ok(ranges.into_iter().flatten().collect())
    }

    /// Calls `visit` with the rows of each unit, one unit after another. `columns` are positions of codes. Memory:
    /// one batch and the rows of one unit.
    ///
    /// # Errors
    /// The error of `visit`, or a [`DatasetError`] for a file that cannot be read.
    pub fn visit_units<E: From<DatasetError>>(
        &self,
        columns: &[usize],
        visit: &mut dyn FnMut(&UnitRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut unit = UnitRows { width: columns.len(), ..UnitRows::default() };
        for file in self.files() {
            let (path, file) = file?;
            let reader = open_part(path, file, columns)?;
            // A unit is in one part.
            let mut current: Option<[u8; UNIT_BYTES as usize]> = None;
            for batch in reader {
                let batch = batch.map_err(|error| damage(path, error.to_string()))?;
                let batch = CodeBatch::new(path, &batch, columns)?;
                for row in 0..batch.units.len() {
                    let id = batch.unit(row);
                    if current != Some(id) {
                        if current.is_some() {
                            visit(&unit)?;
                        }
                        current = Some(id);
                        unit.clear();
                        unit.id = id;
                    }
                    batch.append(row, &mut unit);
                }
            }
            if current.is_some() {
                visit(&unit)?;
            }
            unit.clear();
        }
        Ok(())
    }
}

/// Opens a part for the unit and the columns at these positions.
fn open_part(path: &Path, file: File, columns: &[usize]) -> Result<ParquetRecordBatchReader, DatasetError> {
    let open = || {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let roots = std::iter::once(0).chain(columns.iter().map(|column| column + 1));
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        builder.with_projection(mask).with_batch_size(BATCH).build()
    };
    open().map_err(|error| damage(path, error.to_string()))
}

fn damage(path: &Path, reason: String) -> DatasetError {
    DatasetError::Damaged { path: path.to_path_buf(), reason }
}

/// The arrays of a batch, checked once.
struct CodeBatch {
    units: FixedSizeBinaryArray,
    codes: Vec<Int64Array>,
}

impl CodeBatch {
    fn new(path: &Path, batch: &RecordBatch, columns: &[usize]) -> Result<Self, DatasetError> {
        let column =
            |name: &str| batch.column_by_name(name).ok_or_else(|| damage(path, format!("it has no column {name}")));
        let strange = || damage(path, "a column is of another type".to_owned());
        let units = column("unit")?.as_fixed_size_binary_opt().ok_or_else(strange)?.clone();
        if units.value_length() != UNIT_BYTES || units.null_count() > 0 {
            return Err(strange());
        }
        let codes = columns.iter().map(|position| {
            column(&format!("c{position}"))?.as_primitive_opt::<Int64Type>().cloned().ok_or_else(strange)
        });
        Ok(Self { units, codes: codes.collect::<Result<_, _>>()? })
    }

    fn unit(&self, row: usize) -> [u8; UNIT_BYTES as usize] {
        let mut id = [0; UNIT_BYTES as usize];
        id.copy_from_slice(self.units.value(row));
        id
    }

    fn append(&self, row: usize, unit: &mut UnitRows) {
        unit.codes.extend(self.codes.iter().map(|codes| codes.is_valid(row).then(|| codes.value(row))));
        unit.count += 1;
    }
}
