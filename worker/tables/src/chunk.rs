//! Rows of whole units in columns: as much of a table as is decoded at once.

use std::ops::Range;

use crate::rows::UnitId;

/// The codes of a column. A row without a value has any code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeSlice<'a> {
    pub(crate) codes: &'a [i64],
    pub(crate) has_code: &'a [bool],
}

/// Units with their rows in keyed order, by column. The rows of an incomplete unit may follow.
#[derive(Debug, Clone, Default)]
pub struct UnitChunk {
    codes: Vec<Vec<i64>>,
    has_code: Vec<Vec<bool>>,
    /// Rows, with those of the incomplete unit.
    all_rows: usize,
    /// The complete units, each with the end of its rows.
    units: Vec<(UnitId, usize)>,
}

impl UnitChunk {
    /// Returns a chunk without rows, of `columns` codes a row.
    pub fn new(columns: usize) -> Self {
        Self { codes: vec![Vec::new(); columns], has_code: vec![Vec::new(); columns], all_rows: 0, units: Vec::new() }
    }

    /// Adds a unit with its rows of codes.
    ///
    /// # Panics
    /// If a row has another number of codes than the chunk.
    pub fn push_unit<'a>(&mut self, rows: impl IntoIterator<Item = &'a [Option<i64>]>) {
        for row in rows {
            assert_eq!(row.len(), self.codes.len(), "a row has a code for each column");
            for (column, code) in row.iter().enumerate() {
                self.codes[column].push(code.unwrap_or_default());
                self.has_code[column].push(code.is_some());
            }
            self.all_rows += 1;
        }
        self.units.push((UnitId::default(), self.all_rows));
    }

    /// Returns the number of complete units.
    pub(crate) const fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// Returns the number of rows of complete units.
    pub(crate) fn rows(&self) -> usize {
        self.units.last().map_or(0, |(_, end)| *end)
    }

    /// Returns the number of rows, with those of the incomplete unit.
    pub(crate) const fn all_rows(&self) -> usize {
        self.all_rows
    }

    /// Returns the complete units, each with its rows.
    pub(crate) fn units(&self) -> impl Iterator<Item = (UnitId, Range<usize>)> {
        let mut start = 0;
        self.units.iter().map(move |(id, end)| (*id, std::mem::replace(&mut start, *end)..*end))
    }

    /// Returns a column of the rows of complete units.
    ///
    /// # Panics
    /// If there is no such column.
    pub(crate) fn column(&self, column: usize) -> CodeSlice<'_> {
        let rows = self.rows();
        CodeSlice { codes: &self.codes[column][..rows], has_code: &self.has_code[column][..rows] }
    }

    /// Adds rows to a column. [`Self::add_rows`] follows, once for all columns.
    pub(crate) fn extend_column(&mut self, column: usize, codes: &[i64], has_code: impl Iterator<Item = bool>) {
        self.codes[column].extend_from_slice(codes);
        self.has_code[column].extend(has_code);
    }

    /// Counts rows whose codes were added to each column.
    pub(crate) const fn add_rows(&mut self, rows: usize) {
        self.all_rows += rows;
    }

    /// Completes the last unit with the rows before `end`, if it has rows.
    pub(crate) fn close_unit(&mut self, id: UnitId, end: usize) {
        if end > self.rows() {
            self.units.push((id, end));
        }
    }

    /// Removes the complete units.
    pub(crate) fn discard_units(&mut self) {
        let rows = self.rows();
        self.codes.iter_mut().for_each(|codes| drop(codes.drain(..rows)));
        self.has_code.iter_mut().for_each(|has_code| drop(has_code.drain(..rows)));
        self.all_rows -= rows;
        self.units.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::UnitChunk;

    #[test]
    fn rows_of_an_incomplete_unit_stay() {
        let mut chunk = UnitChunk::new(1);
        chunk.push_unit([&[Some(1)][..], &[None]]);
        chunk.extend_column(0, &[3, 4, 5], [true, false, true].into_iter());
        chunk.add_rows(3);
        chunk.close_unit([1; 16], 4);
        let units: Vec<_> = chunk.units().collect();
        assert_eq!(units, [([0; 16], 0..2), ([1; 16], 2..4)]);
        let column = chunk.column(0);
        assert_eq!((column.codes, column.has_code), (&[1, 0, 3, 4][..], &[true, false, true, false][..]));
        chunk.discard_units();
        assert_eq!((chunk.unit_count(), chunk.rows(), chunk.all_rows()), (0, 0, 1));
        chunk.close_unit([2; 16], 1);
        assert_eq!((chunk.column(0).codes, chunk.column(0).has_code), (&[5][..], &[true][..]));
        chunk.close_unit([3; 16], 1);
        assert_eq!(chunk.unit_count(), 1, "a unit without rows is none");
    }
}
