//! How often a text occurs: count-min (Cormode and Muthukrishnan 2005), with conservative update if asked, and count-mean-min
//! (Goyal, Daumé and Cormode 2012) on top of either.

use super::SketchError;
use super::key::{Key, Places};
use super::size::Size;
use super::table::Table;

/// How a row is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Every cell of the text is raised. Sketches of two parts of a log can be merged.
    Plain,
    /// Only those cells that would say too little. Closer, but what it holds depends on the order of the rows: never merged.
    Conservative,
}

/// Of what count-mean-min takes the mean in a row, as what other texts put into a cell: (S − c) / (columns − 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// S = all occurrences.
    All,
    /// S = what the row holds; less than all under conservative update.
    Row,
}

/// A sketch of how often each text occurs.
#[derive(Clone)]
pub struct CountMin {
    key: Key,
    update: Update,
    table: Table<u64>,
    total: u64,
}

impl CountMin {
    /// An empty sketch. The key is its secret; [`Key::fresh`] unless it is to be merged with others.
    pub fn new(size: Size, update: Update, key: Key) -> Self {
        Self { key, update, table: Table::new(size), total: 0 }
    }

    /// Counts a text.
    pub fn add(&mut self, text: &str, count: u64) {
        self.add_at(&self.places(text), count);
    }

    /// The same where the cells are known already.
    pub(super) fn add_at(&mut self, places: &Places, count: u64) {
        self.total = self.total.saturating_add(count);
        match self.update {
            Update::Plain => self.table.add(places, count),
            Update::Conservative => self.table.raise(places, count),
        }
    }

    /// At least how often the text occurs: never less than the truth, whatever the hash.
    pub fn at_most(&self, text: &str) -> u64 {
        self.table.least(&self.places(text))
    }

    /// [`CountMin::mean_min`] for many texts: sums the rows once.
    pub fn mean_mins(&self, background: Background) -> impl Fn(&str) -> f64 {
        let sums = self.sums(background);
        move |text| self.mean_min_at(&self.places(text), &sums)
    }

    /// About how often: the median over rows of what is left of a cell when the mean of others is taken off it, at least 0 and at
    /// most [`CountMin::at_most`]. Errs both ways; it over-estimates with positive probability whenever it can under-estimate, and
    /// for a text that shares all its cells with a frequent one by as much as that one (`privacy.md`, 7.3).
    pub fn mean_min(&self, text: &str, background: Background) -> f64 {
        self.mean_min_at(&self.places(text), &self.sums(background))
    }

    pub(super) fn mean_min_at(&self, places: &Places, sums: &[f64]) -> f64 {
        let others = f64::from(self.table.size().columns() - 1);
        let left = |(cell, sum): (u64, &f64)| cell as f64 - (sum - cell as f64) / others;
        let mut left: Vec<f64> = self.table.values(places).zip(sums).map(left).collect();
        left.sort_unstable_by(f64::total_cmp);
        let middle = left.len() / 2;
        let median = if left.len() % 2 == 1 { left[middle] } else { f64::midpoint(left[middle - 1], left[middle]) };
        median.min(self.table.least(places) as f64).max(0.0)
    }

    /// The least of the cells.
    #[cfg(test)]
    pub(super) fn table_least(&self, places: &Places) -> u64 {
        self.table.least(places)
    }

    /// S of each row.
    pub(super) fn sums(&self, background: Background) -> Vec<f64> {
        match background {
            Background::All => vec![self.total as f64; self.table.size().rows() as usize],
            Background::Row => self.table.sums().into_iter().map(|sum| sum as f64).collect(),
        }
    }

    /// Occurrences of all texts.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Adds what another sketch of other rows has seen.
    ///
    /// # Errors
    /// [`SketchError`] when that would not be the sketch of all the rows: for conservative ones, other keys, other sizes.
    pub fn merge(&mut self, other: &Self) -> Result<(), SketchError> {
        if self.update == Update::Conservative || other.update == Update::Conservative {
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

    fn places(&self, text: &str) -> Places {
        let size = self.table.size();
        self.key.places(text, size.rows(), size.columns())
    }

    /// Its rows, for comparison.
    #[cfg(test)]
    pub(super) fn rows(&self) -> Vec<Vec<u64>> {
        self.table.rows()
    }
}
