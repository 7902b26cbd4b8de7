//! The layout of a group's frames: rows of all sequences in order, without padding, with the unit of each row.

use std::ops::Range;

/// Sequences of several privacy units, ordered by unit, sequence and frame.
///
/// A unit may have several sequences (a speaker's recordings) of any length, including zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// First row of each sequence, then the number of rows.
    rows: Vec<usize>,
    /// First sequence of each unit, then the number of sequences.
    sequences: Vec<usize>,
}

impl Layout {
    /// Returns the layout of units described by the lengths of their sequences, in frames.
    pub fn new<I>(units: impl IntoIterator<Item = I>) -> Self
    where
        I: IntoIterator<Item = usize>,
    {
        let (mut rows, mut sequences) = (vec![0], vec![0]);
        let mut end = 0;
        for unit in units {
            for length in unit {
                end += length;
                rows.push(end);
            }
            sequences.push(rows.len() - 1);
        }
        Self { rows, sequences }
    }

    /// Returns the number of frames of all units.
    pub fn rows(&self) -> usize {
        self.rows[self.rows.len() - 1]
    }

    /// Returns the number of units.
    pub fn units(&self) -> usize {
        self.sequences.len() - 1
    }

    /// Returns the rows of a unit. All sequences of a unit are adjacent.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn unit(&self, unit: usize) -> Range<usize> {
        self.rows[self.sequences[unit]]..self.rows[self.sequences[unit + 1]]
    }

    /// Returns the rows of each sequence, in order.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        self.rows.windows(2).map(|pair| pair[0]..pair[1])
    }
}

/// The order in which a recurrence visits the rows: frame 0 of every sequence, then frame 1 of the sequences that have
/// one, and so on. The longest sequence is first, so the sequences that are still running are always a prefix.
#[derive(Debug, Clone)]
pub(crate) struct RecurrenceOrder {
    /// The row visited at each place of the order.
    pub(crate) order: Vec<i64>,
    /// The place of each row in the order.
    pub(crate) place: Vec<i64>,
    /// The places of each time step.
    pub(crate) steps: Vec<Range<usize>>,
}

impl RecurrenceOrder {
    pub(crate) fn new(layout: &Layout) -> Self {
        let mut sequences: Vec<Range<usize>> = layout.sequences().filter(|rows| !rows.is_empty()).collect();
        sequences.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
        let longest = sequences.first().map_or(0, ExactSizeIterator::len);
        let (mut order, mut place) = (Vec::with_capacity(layout.rows()), vec![0; layout.rows()]);
        let mut steps = Vec::with_capacity(longest);
        for t in 0..longest {
            let start = order.len();
            for rows in sequences.iter().take_while(|rows| t < rows.len()) {
                place[rows.start + t] = order.len() as i64;
                order.push((rows.start + t) as i64);
            }
            steps.push(start..order.len());
        }
        Self { order, place, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, RecurrenceOrder};

    #[test]
    fn rows_belong_to_sequences_and_sequences_to_units() {
        let layout = Layout::new([vec![2, 3], vec![], vec![1, 0]]);
        assert_eq!((layout.rows(), layout.units()), (6, 3));
        assert_eq!([layout.unit(0), layout.unit(1), layout.unit(2)], [0..5, 5..5, 5..6]);
        assert_eq!(layout.sequences().collect::<Vec<_>>(), [0..2, 2..5, 5..6, 6..6]);
        let nobody = Layout::new(Vec::<Vec<usize>>::new());
        assert_eq!((nobody.rows(), nobody.units(), nobody.sequences().len()), (0, 0, 0));
    }

    #[test]
    fn a_walk_visits_every_row_once_and_sequences_in_step() {
        let walk = RecurrenceOrder::new(&Layout::new([vec![2, 3], vec![1]]));
        assert_eq!(walk.order, [2, 0, 5, 3, 1, 4]);
        assert_eq!(walk.steps, [0..3, 3..5, 5..6]);
        assert!((0..6).all(|row| walk.order[walk.place[row] as usize] == row as i64));
    }
}
