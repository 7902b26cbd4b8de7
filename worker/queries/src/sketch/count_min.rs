//! Frequencies of texts: count-min (Cormode and Muthukrishnan 2005), with conservative update on request, and
//! count-mean-min (Goyal, Daumé and Cormode 2012) on top of either.

use super::SketchError;
use super::key::{CellColumns, SketchKey};
use super::size::TableSize;
use super::table::CellTable;

/// The rule of counting a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateRule {
    /// Raises every cell of the text. Sketches of two parts of a log can be merged.
    Plain,
    /// Raises only the cells that would be too low. Closer, but the state depends on the order of the rows: never
    /// merged.
    Conservative,
}

/// The total S of a row in count-mean-min, which estimates the contribution of other texts to a cell: (S − c) /
/// (columns − 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeanBackground {
    /// S = all occurrences.
    All,
    /// S = the sum of the row's cells; less than all under conservative update.
    Row,
}

/// A sketch of the frequency of each text.
#[derive(Clone)]
pub struct CountMin {
    key: SketchKey,
    update: UpdateRule,
    table: CellTable<u64>,
    total: u64,
}

impl CountMin {
    /// Makes an empty sketch. The key is its secret: [`SketchKey::fresh`] unless the sketch is to be merged with others.
    pub fn new(size: TableSize, update: UpdateRule, key: SketchKey) -> Self {
        Self { key, update, table: CellTable::new(size), total: 0 }
    }

    /// Counts a text.
    pub fn add(&mut self, text: &str, count: u64) {
        self.add_at(&self.places(text), count);
    }

    /// Counts a text whose cells are known.
    pub(super) fn add_at(&mut self, places: &CellColumns, count: u64) {
        self.total = self.total.saturating_add(count);
        match self.update {
            UpdateRule::Plain => self.table.add(places, count),
            UpdateRule::Conservative => self.table.raise(places, count),
        }
    }

    /// Returns an upper bound of the text's occurrences: never less than the truth, for any hash.
    pub fn at_most(&self, text: &str) -> u64 {
        self.table.least(&self.places(text))
    }

    /// Returns [`CountMin::mean_min`] for many texts: sums the rows once.
    pub fn mean_mins(&self, background: MeanBackground) -> impl Fn(&str) -> f64 {
        let sums = self.sums(background);
        move |text| self.mean_min_at(&self.places(text), &sums)
    }

    /// Estimates the occurrences of a text: the median over rows of the cell less the mean of the other cells, at least
    /// 0 and at most [`CountMin::at_most`]. It errs both ways. It over-estimates with positive probability whenever it
    /// can under-estimate, and for a text that shares all its cells with a frequent one by as much as the frequent
    /// text's count (`privacy.md`, 7.3).
    pub fn mean_min(&self, text: &str, background: MeanBackground) -> f64 {
        self.mean_min_at(&self.places(text), &self.sums(background))
    }

    pub(super) fn mean_min_at(&self, places: &CellColumns, sums: &[f64]) -> f64 {
        let others = f64::from(self.table.size().columns() - 1);
        let excess = |(cell, sum): (u64, &f64)| cell as f64 - (sum - cell as f64) / others;
        let mut excesses: Vec<f64> = self.table.values(places).zip(sums).map(excess).collect();
        excesses.sort_unstable_by(f64::total_cmp);
        let middle = excesses.len() / 2;
        let median = if excesses.len() % 2 == 1 {
            excesses[middle]
        } else {
            f64::midpoint(excesses[middle - 1], excesses[middle])
        };
        median.min(self.table.least(places) as f64).max(0.0)
    }

    /// Returns the least of the cells.
    #[cfg(test)]
    pub(super) fn table_least(&self, places: &CellColumns) -> u64 {
        self.table.least(places)
    }

    /// Returns S of each row.
    pub(super) fn sums(&self, background: MeanBackground) -> Vec<f64> {
        match background {
            MeanBackground::All => vec![self.total as f64; self.table.size().rows() as usize],
            MeanBackground::Row => self.table.sums().into_iter().map(|sum| sum as f64).collect(),
        }
    }

    /// Returns the occurrences of all texts.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Adds the counts of another sketch of other rows.
    ///
    /// # Errors
    /// [`SketchError`] when the result would differ from the sketch of all rows: for conservative sketches, other keys,
    /// other sizes.
    pub fn merge(&mut self, other: &Self) -> Result<(), SketchError> {
        if self.update == UpdateRule::Conservative || other.update == UpdateRule::Conservative {
            return Err(SketchError::Conservative);
        }
        if self.key != other.key {
            return Err(SketchError::Keys);
        }
        if self.table.size() != other.table.size() {
            return Err(SketchError::Sizes);
        }
        self.total = self.total.saturating_add(other.total);
        self.table.merge(&other.table);
        Ok(())
    }

    fn places(&self, text: &str) -> CellColumns {
        let size = self.table.size();
        self.key.places(text, size.rows(), size.columns())
    }

    /// Returns the rows, for comparison.
    #[cfg(test)]
    pub(super) fn rows(&self) -> Vec<Vec<u64>> {
        self.table.rows()
    }
}
