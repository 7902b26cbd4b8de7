//! Some coordinates of a model: those of the parts that are trained. What is exchanged are these alone, one after another.

use std::ops::Range;

/// Ranges of a flat vector of parameters, in order, none touching the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subset {
    ranges: Vec<Range<usize>>,
    length: usize,
}

impl Subset {
    /// Of ranges in ascending order that do not overlap.
    pub(super) fn new(ranges: impl IntoIterator<Item = Range<usize>>) -> Self {
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        Self { length: joined.iter().map(ExactSizeIterator::len).sum(), ranges: joined }
    }

    /// How many coordinates.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where they lie.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// These coordinates of a whole vector.
    ///
    /// # Panics
    /// If the vector is too short to have them.
    pub fn gather(&self, whole: &[f32]) -> Vec<f32> {
        self.ranges.iter().flat_map(|range| &whole[range.clone()]).copied().collect()
    }

    /// Puts these coordinates into a whole vector; the others stay as they are.
    ///
    /// # Panics
    /// If there is another number of them, or the vector is too short to have them.
    pub fn scatter(&self, coordinates: &[f32], whole: &mut [f32]) {
        assert_eq!(coordinates.len(), self.length, "a number for each coordinate of the subset");
        let mut rest = coordinates;
        for range in &self.ranges {
            let (own, after) = rest.split_at(range.len());
            whole[range.clone()].copy_from_slice(own);
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Subset;

    #[test]
    fn what_is_gathered_can_be_scattered_and_nothing_else_changes() {
        let subset = Subset::new([1..3, 3..4, 6..7]);
        assert_eq!((subset.len(), subset.ranges()), (4, &[1..4, 6..7][..]));
        let mut whole: Vec<f32> = (0..8_u8).map(f32::from).collect();
        assert_eq!(subset.gather(&whole), [1.0, 2.0, 3.0, 6.0]);
        subset.scatter(&[-1.0, -2.0, -3.0, -6.0], &mut whole);
        assert_eq!(whole, [0.0, -1.0, -2.0, -3.0, 4.0, 5.0, -6.0, 7.0]);
    }
}
