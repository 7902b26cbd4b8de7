//! Sizes of tables, from error bounds.

use super::key::MOST_ROWS;
use super::{MOST_CELLS, SketchError};

/// The number of rows and columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSize {
    rows: u32,
    columns: u32,
}

impl TableSize {
    /// Makes the size of a table.
    ///
    /// # Errors
    /// [`SketchError`] unless there are 1 to 16 rows and at least 2 columns, together at most 2³⁰ cells.
    pub fn new(rows: u32, columns: u32) -> Result<Self, SketchError> {
        if !(1..=MOST_ROWS).contains(&rows) {
            return Err(SketchError::Bound { name: "rows of a sketch", range: "1 to 16", value: f64::from(rows) });
        }
        if columns < 2 {
            return Err(SketchError::Bound {
                name: "columns of a sketch",
                range: "at least 2",
                value: f64::from(columns),
            });
        }
        if u64::from(rows) * u64::from(columns) > MOST_CELLS {
            return Err(SketchError::Size { columns: columns.into(), rows });
        }
        Ok(Self { rows, columns })
    }

    /// Returns the size of a table whose estimates exceed the truth by more than `error` times all occurrences with
    /// probability at most `failure`, for each text: e/`error` columns and ln(1/`failure`) rows (Cormode and
    /// Muthukrishnan 2005, Theorem 1).
    ///
    /// # Errors
    /// [`SketchError::Bound`] unless both are greater than 0 and less than 1 (`failure` at least e⁻¹⁶),
    /// [`SketchError::Size`] when the table would need too many cells.
    pub fn for_error(error: f64, failure: f64) -> Result<Self, SketchError> {
        if !(error > 0.0 && error < 1.0) {
            return Err(SketchError::Bound {
                name: "the error",
                range: "greater than 0 and less than 1",
                value: error,
            });
        }
        let rows = (-failure.ln()).ceil();
        if !(failure < 1.0 && (1.0..=f64::from(MOST_ROWS)).contains(&rows)) {
            let range = "at least 1.2e-7 and less than 1";
            return Err(SketchError::Bound { name: "the probability of a larger error", range, value: failure });
        }
        let columns = (std::f64::consts::E / error).ceil();
        if columns * rows > MOST_CELLS as f64 {
            return Err(SketchError::Size { columns: columns as u64, rows: rows as u32 });
        }
        Self::new(rows as u32, columns as u32)
    }

    /// Returns the number of rows.
    pub const fn rows(self) -> u32 {
        self.rows
    }

    /// Returns the number of cells of a row.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Returns the number of all cells.
    pub const fn cells(self) -> usize {
        self.rows as usize * self.columns as usize
    }
}

#[cfg(test)]
mod tests {
    use super::TableSize;

    #[test]
    fn table_size_follows_its_error() {
        let size = TableSize::for_error(0.001, 0.01).expect("it fits");
        assert_eq!((size.rows(), size.columns(), size.cells()), (5, 2719, 13_595));
        assert_eq!(TableSize::for_error(0.5, 0.9).map(|size| (size.rows(), size.columns())), Ok((1, 6)));
    }

    #[test]
    fn impossible_table_size_is_refused() {
        for (error, failure) in
            [(0.0, 0.1), (1.0, 0.1), (f64::NAN, 0.1), (0.1, 0.0), (0.1, 1.0), (0.1, f64::NAN), (0.1, 1e-8), (1e-9, 0.1)]
        {
            assert!(TableSize::for_error(error, failure).is_err(), "{error} {failure}");
        }
        for (rows, columns) in [(0, 5), (17, 5), (3, 1), (2, u32::MAX)] {
            assert!(TableSize::new(rows, columns).is_err(), "{rows} {columns}");
        }
    }
}
