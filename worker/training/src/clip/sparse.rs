//! Contributions with few nonzero coordinates, such as those of a unit to counts of many groups.

use undertone_privacy::SamplingRate;

use super::grid::{Clip, FINENESS};
use super::{ATTEMPTS, ClippedSum};

impl ClippedSum {
    /// Returns the empty sum in which every unit takes part, for vectors of `length` coordinates.
    pub fn begin_whole(clip: Clip, length: usize) -> Self {
        Self {
            radii: vec![clip.radius()],
            clip,
            rate: SamplingRate::ONE,
            sum: vec![0; length],
            parts: std::iter::once(0..length).collect(),
        }
    }

    /// Adds the contribution of one unit, given by its nonzero coordinates. Values are rounded toward zero to the grid,
    /// and the norm is verified in integers; a longer contribution is scaled to C. A contribution that is not finite
    /// counts as zero.
    ///
    /// # Panics
    /// If the coordinates are not strictly ascending, or reach beyond the sum: a coordinate that is there twice would
    /// escape the bound.
    pub fn add_sparse(&mut self, entries: &[(usize, f64)]) {
        assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "coordinates ascend");
        assert!(entries.last().is_none_or(|(place, _)| *place < self.sum.len()), "coordinates are of the sum");
        if entries.iter().any(|(_, value)| !value.is_finite()) {
            return;
        }
        let limit = u128::from(self.clip.radius).pow(2);
        let mut factor = self.clip.scale;
        for _ in 0..ATTEMPTS {
            // The conversion saturates. A step beyond the radius is longer than the limit, so none of them is added.
            let steps = |value: f64| (value * factor) as i64;
            let squares = entries
                .iter()
                .map(|(_, value)| u128::from(steps(*value).unsigned_abs()).pow(2))
                .fold(0_u128, u128::saturating_add);
            if squares <= limit {
                for (place, value) in entries {
                    self.sum[*place] += steps(*value);
                }
                return;
            }
            factor *= self.clip.radius as f64 / (squares as f64).sqrt() * (1.0 - 1.0 / FINENESS);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use undertone_privacy::NoiseMultiplier;

    use super::ClippedSum;
    use crate::clip::Clip;

    fn sum(z: f64, length: usize) -> ClippedSum {
        let z = NoiseMultiplier::new(z).expect("a multiplier");
        ClippedSum::begin_whole(Clip::new(1.0, z).expect("a clip"), length)
    }

    proptest! {
        #[test]
        fn sparse_unit_moves_the_sum_by_at_most_the_clip(
            values in proptest::collection::btree_map(0_usize..500, -1e300_f64..1e300, 0..40),
            exponent in -320_i32..20,
            z in 0.01_f64..10.0,
        ) {
            let mut sum = sum(z, 500);
            let entries: Vec<(usize, f64)> = values.into_iter().map(|(place, value)| (place, value * 10_f64.powi(exponent))).collect();
            sum.add_sparse(&entries);
            let squares: u128 = sum.sum.iter().map(|steps| u128::from(steps.unsigned_abs()).pow(2)).sum();
            prop_assert!(squares <= u128::from(sum.clip.radius()).pow(2));
        }
    }

    #[test]
    fn multiples_of_the_grid_are_added_exactly() {
        let step = 1.0 / f64::from(1 << 20);
        for z in [0.5, 1.0, 8.0] {
            let mut sum = sum(z, 4);
            sum.add_sparse(&[(0, 3.0 * step), (3, -700_000.0 * step)]);
            sum.add_sparse(&[]);
            sum.add_sparse(&[(0, step)]);
            sum.add_sparse(&[(1, f64::NAN), (2, 1.0)]);
            let back: Vec<f64> = sum.sum.iter().map(|steps| *steps as f64 * sum.clip.step() / step).collect();
            assert_eq!(back, [4.0, 0.0, 0.0, -700_000.0]);
        }
    }

    #[test]
    #[should_panic(expected = "coordinates ascend")]
    fn repeated_coordinate_is_refused() {
        sum(1.0, 4).add_sparse(&[(1, 0.7), (1, 0.7)]);
    }
}
