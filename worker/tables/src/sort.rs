//! An external sort of rows, in bounded memory.
//!
//! A row has a fixed width, and its bytes in their order are its sort key: unit, order, missing values, cells. So the
//! result depends on the set of rows and not on the order in which they came. Full buffers are sorted and written to
//! private files (runs); a heap merges the runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use undertone_worker_site::dataset_meta::DatasetError;

use crate::error::TableError;

/// The memory of the rows that are sorted at once, bytes.
pub const SORT_MEMORY: usize = 128 << 20;
/// The greatest number of runs: with [`SORT_MEMORY`], 128 GiB of rows.
pub const MOST_RUNS: usize = 1024;

/// Bytes of a row before its missing values: 16 of the unit, 8 of the order.
const HEAD: usize = 24;

/// The width of a row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowShape {
    columns: usize,
}

impl RowShape {
    /// Returns the shape of a row of `columns` cells.
    pub const fn new(columns: usize) -> Self {
        Self { columns }
    }

    /// Returns the number of cells.
    pub const fn columns(self) -> usize {
        self.columns
    }

    const fn nulls(self) -> usize {
        self.columns.div_ceil(8)
    }

    /// Returns the bytes of a row.
    pub const fn width(self) -> usize {
        HEAD + self.nulls() + 8 * self.columns
    }

    /// Appends the bytes of the cells: a bit for each missing value, then 8 bytes for each cell.
    pub fn encode_cells(self, cells: &[Option<i64>], bytes: &mut Vec<u8>) {
        let begin = bytes.len();
        bytes.resize(begin + self.nulls(), 0);
        for (index, cell) in cells.iter().enumerate() {
            if cell.is_none() {
                bytes[begin + index / 8] |= 1 << (index % 8);
            }
        }
        for cell in cells {
            bytes.extend_from_slice(&cell.unwrap_or(0).to_be_bytes());
        }
    }
}

/// A row of the sorted table.
#[derive(Debug, Clone, Copy)]
pub struct SortedRow<'a> {
    bytes: &'a [u8],
    shape: RowShape,
}

impl SortedRow<'_> {
    /// Returns the keyed hash of the unit.
    pub fn unit(&self) -> u128 {
        let mut unit = [0; 16];
        unit.copy_from_slice(&self.bytes[..16]);
        u128::from_be_bytes(unit)
    }

    /// Returns a cell; `None` where the value is missing.
    ///
    /// # Panics
    /// If the table has no such column.
    pub fn cell(&self, index: usize) -> Option<i64> {
        if self.bytes[HEAD + index / 8] & (1 << (index % 8)) != 0 {
            return None;
        }
        let begin = HEAD + self.shape.nulls() + 8 * index;
        let mut cell = [0; 8];
        cell.copy_from_slice(&self.bytes[begin..begin + 8]);
        Some(i64::from_be_bytes(cell))
    }

    /// Returns all cells, in their order.
    pub fn cells(&self) -> impl Iterator<Item = Option<i64>> {
        (0..self.shape.columns()).map(|index| self.cell(index))
    }
}

/// Collects rows and sorts them.
pub struct RowSorter {
    folder: PathBuf,
    shape: RowShape,
    /// Rows before they are sorted, one after another.
    rows: Vec<u8>,
    most: usize,
    runs: Vec<PathBuf>,
}

impl RowSorter {
    /// Begins a sort. Runs are written into `folder`, which must exist and be readable by its owner only; `memory` is
    /// the size of a run in bytes.
    pub fn new(folder: &Path, shape: RowShape, memory: usize) -> Self {
        let most = (memory / shape.width()).max(2) * shape.width();
        Self { folder: folder.to_path_buf(), shape, rows: Vec::new(), most, runs: Vec::new() }
    }

    /// Adds a row: the keyed hash of its unit, its keyed order, and its encoded cells.
    ///
    /// # Errors
    /// [`TableError`] when the disk refuses a run, or there are more than [`MOST_RUNS`].
    pub fn push(&mut self, unit: u128, order: u64, cells: &[u8]) -> Result<(), TableError> {
        self.rows.extend_from_slice(&unit.to_be_bytes());
        self.rows.extend_from_slice(&order.to_be_bytes());
        self.rows.extend_from_slice(cells);
        if self.rows.len() >= self.most { self.spill() } else { Ok(()) }
    }

    /// Returns the buffered rows, sorted.
    fn sort(&mut self) -> Vec<u8> {
        let width = self.shape.width();
        let rows = std::mem::take(&mut self.rows);
        let mut sorted: Vec<&[u8]> = rows.chunks_exact(width).collect();
        sorted.sort_unstable();
        sorted.concat()
    }

    fn spill(&mut self) -> Result<(), TableError> {
        if self.runs.len() == MOST_RUNS {
            return Err(TableError::TooLarge { gib: (MOST_RUNS * SORT_MEMORY) >> 30 });
        }
        let rows = self.sort();
        let path = self.folder.join(format!("run-{:04}", self.runs.len()));
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(DatasetError::io("create", &path))?;
        let mut writer = BufWriter::new(file);
        writer.write_all(&rows).and_then(|()| writer.flush()).map_err(DatasetError::io("write", &path))?;
        self.runs.push(path);
        Ok(())
    }

    /// Ends the sort and returns its rows.
    ///
    /// # Errors
    /// [`TableError`] when a run cannot be written or read.
    pub fn finish(mut self) -> Result<SortedRows, TableError> {
        let last = self.sort();
        let mut runs = Vec::with_capacity(self.runs.len() + 1);
        for path in &self.runs {
            let file = File::open(path).map_err(DatasetError::io("open", path))?;
            runs.push(Run { path: path.clone(), rows: Box::new(BufReader::with_capacity(1 << 16, file)) });
        }
        runs.push(Run { path: self.folder.clone(), rows: Box::new(std::io::Cursor::new(last)) });
        let mut sorted = SortedRows { shape: self.shape, runs, heap: BinaryHeap::new(), row: Vec::new() };
        for run in 0..sorted.runs.len() {
            sorted.refill(run, Vec::new())?;
        }
        Ok(sorted)
    }
}

/// A sorted run, read row by row.
struct Run {
    path: PathBuf,
    rows: Box<dyn Read>,
}

/// The rows of a finished sort, in order.
pub struct SortedRows {
    shape: RowShape,
    runs: Vec<Run>,
    /// The next row of each run, with the number of the run.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    row: Vec<u8>,
}

impl SortedRows {
    /// Returns the next row; `None` after the last.
    ///
    /// # Errors
    /// [`TableError`] when a run cannot be read.
    pub fn next_row(&mut self) -> Result<Option<SortedRow<'_>>, TableError> {
        let Some(Reverse((bytes, run))) = self.heap.pop() else { return Ok(None) };
        let buffer = std::mem::replace(&mut self.row, bytes);
        self.refill(run, buffer)?;
        Ok(Some(SortedRow { bytes: &self.row, shape: self.shape }))
    }

    /// Moves the next row of a run to the heap, in `buffer`.
    fn refill(&mut self, run: usize, mut buffer: Vec<u8>) -> Result<(), TableError> {
        buffer.clear();
        let Run { path, rows } = &mut self.runs[run];
        let width = self.shape.width();
        rows.take(width as u64).read_to_end(&mut buffer).map_err(DatasetError::io("read", path))?;
        match buffer.len() {
            0 => {}
            length if length == width => self.heap.push(Reverse((buffer, run))),
            length => {
                let (expected, found) = (width as u64, length as u64);
                return Err(DatasetError::Length { path: path.clone(), expected, found }.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{RowShape, RowSorter};

    /// Sorts `rows` of two cells with runs of `memory` bytes.
    fn sorted(rows: &[(u128, u64, [Option<i64>; 2])], memory: usize) -> Vec<(u128, Option<i64>, Option<i64>)> {
        let folder = tempfile::tempdir().unwrap();
        let shape = RowShape::new(2);
        let mut sorter = RowSorter::new(folder.path(), shape, memory);
        for (unit, order, cells) in rows {
            let mut bytes = Vec::new();
            shape.encode_cells(cells, &mut bytes);
            sorter.push(*unit, *order, &bytes).unwrap();
        }
        let mut found = sorter.finish().unwrap();
        let mut list = Vec::new();
        while let Some(row) = found.next_row().unwrap() {
            list.push((row.unit(), row.cell(0), row.cell(1)));
        }
        list
    }

    #[test]
    fn order_of_rows_and_runs_leave_the_result_unchanged() {
        let cell = |n: u64| if n.is_multiple_of(7) { None } else { Some(n as i64 - 40) };
        let rows: Vec<_> = (0..100_u64)
            .map(|n| (u128::from(n * 37 % 11), n * 53 % 101, [cell(n), Some(i64::MIN + n as i64)]))
            .collect();
        let whole = sorted(&rows, 1 << 20);
        assert_eq!(whole.len(), rows.len());
        assert!(whole.is_sorted_by_key(|row| row.0));
        let backwards: Vec<_> = rows.iter().rev().copied().collect();
        assert_eq!(sorted(&backwards, 1 << 20), whole);
        // Runs of a few rows.
        assert_eq!(sorted(&backwards, 200), whole);
        assert!(sorted(&[], 200).is_empty());
    }
}
