//! Where the frames of a group lie: rows of all sequences one after another, without padding, and whose they are.

use std::ops::Range;

/// Sequences of some privacy units, unit after unit, sequence after sequence, frame after frame.
///
/// A unit may have several sequences (a speaker's recordings), sequences may have any lengths, none included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The row at which each sequence begins, and the end.
    rows: Vec<usize>,
    /// The sequence with which each unit begins, and the end.
    sequences: Vec<usize>,
}

impl Layout {
    /// Of units given by the lengths of their sequences, in frames.
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

    /// Frames of all units.
    pub fn rows(&self) -> usize {
        self.rows[self.rows.len() - 1]
    }

    /// How many units.
    pub fn units(&self) -> usize {
        self.sequences.len() - 1
    }

    /// Rows of all sequences of a unit, which lie together.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn unit(&self, unit: usize) -> Range<usize> {
        self.rows[self.sequences[unit]]..self.rows[self.sequences[unit + 1]]
    }

    /// Rows of each sequence, in order.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        self.rows.windows(2).map(|pair| pair[0]..pair[1])
    }
}

/// The rows in the order in which a recurrence visits them: frame 0 of every sequence, then frame 1 of those that have
/// one, the longest sequence first, so that those still running are always the first few.
#[derive(Debug, Clone)]
pub(in crate::dp) struct Walk {
    /// For each place of the walk, the row that is visited.
    pub(in crate::dp) order: Vec<i64>,
    /// For each row, its place in the walk.
    pub(in crate::dp) place: Vec<i64>,
    /// Places of each step.
    pub(in crate::dp) steps: Vec<Range<usize>>,
}

impl Walk {
    pub(in crate::dp) fn new(layout: &Layout) -> Self {
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
    use super::{Layout, Walk};

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
        let walk = Walk::new(&Layout::new([vec![2, 3], vec![1]]));
        assert_eq!(walk.order, [2, 0, 5, 3, 1, 4]);
        assert_eq!(walk.steps, [0..3, 3..5, 5..6]);
        assert!((0..6).all(|row| walk.order[walk.place[row] as usize] == row as i64));
    }
}
