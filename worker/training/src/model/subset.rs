//! The coordinates of the trained parts of a model. Participants exchange these alone, concatenated.

use std::ops::Range;

/// Ranges of a flat vector of parameters, in order, none adjacent to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinateSubset {
    ranges: Vec<Range<usize>>,
    length: usize,
}

impl CoordinateSubset {
    /// Returns the subset of `ranges`, in ascending order and without overlaps.
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

    /// Returns the number of coordinates.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Returns true if there are no coordinates.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the ranges of the coordinates.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Returns these coordinates of a whole vector.
    ///
    /// # Panics
    /// If the vector is too short.
    pub fn gather(&self, whole: &[f32]) -> Vec<f32> {
        self.ranges.iter().flat_map(|range| &whole[range.clone()]).copied().collect()
    }

    /// Writes these coordinates to a whole vector; the others do not change.
    ///
    /// # Panics
    /// If the number of coordinates differs, or the vector is too short.
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
    use super::CoordinateSubset;

    #[test]
    fn gather_then_scatter_changes_nothing_else() {
        let subset = CoordinateSubset::new([1..3, 3..4, 6..7]);
        assert_eq!((subset.len(), subset.ranges()), (4, &[1..4, 6..7][..]));
        let mut whole: Vec<f32> = (0..8_u8).map(f32::from).collect();
        assert_eq!(subset.gather(&whole), [1.0, 2.0, 3.0, 6.0]);
        subset.scatter(&[-1.0, -2.0, -3.0, -6.0], &mut whole);
        assert_eq!(whole, [0.0, -1.0, -2.0, -3.0, 4.0, 5.0, -6.0, 7.0]);
    }
}
