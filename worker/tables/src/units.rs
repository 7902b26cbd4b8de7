//! Streams the units of a table: the rows of one unit at a time, in keyed order, with the columns that a job uses.

use std::ops::Range;

use undertone_api::table::TableColumn;
use undertone_worker_site::dataset_meta::DatasetError;

use crate::chunk::UnitChunk;
use crate::dataset::TableReader;
use crate::error::TableError;
use crate::rows::UnitId;
use crate::stream::UnitStream;

/// The rows of one unit, in keyed order. At most [`MOST_UNIT_ROWS`](crate::add::MOST_UNIT_ROWS).
#[derive(Debug, Default)]
pub struct UnitRows {
    id: UnitId,
    codes: Vec<Option<i64>>,
    width: usize,
    count: usize,
}

impl UnitRows {
    /// Returns the unit's id: a keyed hash of the owner's. Never leaves the site.
    pub const fn id(&self) -> UnitId {
        self.id
    }

    /// Returns the codes of each row, in the order of the job's columns: one of each column, or several of a text.
    pub fn rows(&self) -> impl Iterator<Item = &[Option<i64>]> + Clone {
        (0..self.count).map(|row| &self.codes[row * self.width..(row + 1) * self.width])
    }

    /// Replaces the unit by one of a chunk.
    fn fill(&mut self, chunk: &UnitChunk, id: UnitId, rows: Range<usize>) {
        self.id = id;
        self.count = rows.len();
        self.codes.clear();
        self.codes.resize(self.count * self.width, None);
        for place in 0..self.width {
            let column = chunk.column(place);
            let own = self.codes.iter_mut().skip(place).step_by(self.width);
            for (code, row) in own.zip(rows.clone()) {
                *code = column.has_code[row].then(|| column.codes[row]);
            }
        }
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
        let mut chunk = UnitChunk::new(columns.len());
        for file in self.files() {
            let Some(mut stream) = UnitStream::open(file, columns, 0, 1)? else { continue };
            while stream.next_chunk(&mut chunk)? {
                for (id, rows) in chunk.units() {
                    unit.fill(&chunk, id, rows);
                    visit(&unit)?;
                }
            }
        }
        Ok(())
    }
}
