//! The sum in which every unit takes part, of contributions that are integers from the beginning: counts and sums of rows.

use undertone_privacy::SamplingRate;

use super::ClippedSum;
use super::grid::{Clip, ClipError};

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

    /// Adds the sum of the contributions of several units, in steps of C/`grid`. The caller has verified in integers that
    /// the contribution of each unit has a norm of at most `grid` steps.
    ///
    /// # Errors
    /// [`ClipError::Grid`] if the clip is no multiple of `grid` steps, and [`ClipError::Overflow`] if a coordinate does
    /// not fit 64 bits. Then nothing is added.
    ///
    /// # Panics
    /// If `steps` and the sum differ in length.
    pub fn add_bounded(&mut self, grid: u64, steps: &[i64]) -> Result<(), ClipError> {
        assert_eq!(steps.len(), self.sum.len(), "contributions and sum are of one vector");
        let radius = self.clip.radius();
        let factor = radius.checked_div(grid).filter(|factor| factor * grid == radius);
        let factor = factor.ok_or(ClipError::Grid(grid))?.cast_signed();
        let add = |(own, steps): (&i64, &i64)| steps.checked_mul(factor)?.checked_add(*own);
        let sum: Option<Vec<i64>> = self.sum.iter().zip(steps).map(add).collect();
        self.sum = sum.ok_or(ClipError::Overflow)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::NoiseMultiplier;

    use super::ClippedSum;
    use crate::clip::{Clip, ClipError};

    const GRID: u64 = 1 << 20;

    fn sum(z: f64) -> ClippedSum {
        let z = NoiseMultiplier::new(z).expect("a multiplier");
        ClippedSum::begin_whole(Clip::new(1.0, z).expect("a clip"), 4)
    }

    #[test]
    fn multiples_of_the_grid_are_added_exactly() {
        for z in [1.0 / 1024.0, 0.5, 1.0, 8.0] {
            let mut sum = sum(z);
            sum.add_bounded(GRID, &[3, 0, 0, -700_000]).expect("it fits");
            sum.add_bounded(GRID, &[1, 0, 0, 0]).expect("it fits");
            let back: Vec<f64> = sum.sum.iter().map(|steps| *steps as f64 * sum.clip.step() * GRID as f64).collect();
            assert_eq!(back, [4.0, 0.0, 0.0, -700_000.0]);
        }
    }

    #[test]
    fn longest_contribution_has_the_norm_of_the_clip() {
        for z in [1.0 / 1024.0, 0.3, 1.0, 1024.0] {
            let mut sum = sum(z);
            sum.add_bounded(GRID, &[0, GRID.cast_signed(), 0, 0]).expect("it fits");
            assert_eq!(sum.sum[1].cast_unsigned(), sum.clip.radius());
        }
    }

    #[test]
    fn overflow_and_another_grid_are_refused_and_add_nothing() {
        let mut sum = sum(0.5);
        sum.add_bounded(GRID, &[5, 0, 0, 0]).expect("it fits");
        let before = sum.sum.clone();
        assert_eq!(sum.add_bounded(GRID, &[1, 0, 0, i64::MAX / 2 + 1]), Err(ClipError::Overflow), "the product");
        assert_eq!(sum.add_bounded(GRID, &[i64::MAX / 2, 0, 0, 0]), Err(ClipError::Overflow), "the sum");
        for grid in [0, 3, 1 << 40] {
            assert_eq!(sum.add_bounded(grid, &[1; 4]), Err(ClipError::Grid(grid)));
        }
        assert_eq!(sum.sum, before);
    }
}
