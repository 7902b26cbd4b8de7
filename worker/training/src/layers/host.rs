//! Gradients of a parameter matrix whose two operands are in host memory, with norms, steps and sums by the kernels.

use std::ops::Range;

use super::piece::GridQuantizer;
use super::{GradientPiece, GradientSink, Layout, MatrixBlock};
use crate::kernels::outer::{MOST_STEPS, RowProducts, StoredSum, TALLEST, height};
use crate::kernels::pack::WIDE;
use crate::kernels::pool::BufferPool;

/// The location of a unit's gradient.
#[derive(Debug, Clone)]
pub(crate) enum GradientSource {
    /// The unit has no rows.
    Nowhere,
    /// A range of rows of the product with this index.
    Rows(usize, Range<usize>),
    /// The stored sum with this index.
    StoredSum(usize),
}

/// The sum Σₜ aₜ bₜᵀ of each unit.
pub(crate) struct HostOuter {
    shape: [usize; 2],
    products: Vec<RowProducts>,
    /// Stored sums with their squared norms.
    kept: Vec<(StoredSum, f64)>,
    /// If absent, all units are in the first product, in the rows of their layout.
    sources: Option<Vec<GradientSource>>,
    pool: Option<BufferPool>,
}

impl Drop for HostOuter {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            self.products.drain(..).for_each(|product| pool.give(product.into_buffer()));
            self.kept.drain(..).for_each(|(kept, _)| pool.give(kept.into_buffer()));
        }
    }
}

impl HostOuter {
    /// Returns the gradients of all rows of a layout.
    pub(crate) fn new(outer: RowProducts) -> Self {
        Self { shape: outer.shape(), products: vec![outer], kept: Vec::new(), sources: None, pool: None }
    }

    /// Returns the gradients of units with individual locations.
    ///
    /// # Panics
    /// If a source refers to a missing product or sum.
    pub(crate) fn of_units(
        shape: [usize; 2],
        products: Vec<RowProducts>,
        kept: Vec<(StoredSum, f64)>,
        sources: Vec<GradientSource>,
    ) -> Self {
        let there = |source: &GradientSource| match source {
            GradientSource::Nowhere => true,
            GradientSource::Rows(product, rows) => {
                products.get(*product).is_some_and(|product| rows.end <= product.rows())
            }
            GradientSource::StoredSum(index) => *index < kept.len(),
        };
        assert!(sources.iter().all(there), "each unit's gradient is where it is said to be");
        Self { shape, products, kept, sources: Some(sources), pool: None }
    }

    /// Returns the same gradients with buffers that return to `pool` on drop.
    #[must_use]
    pub(crate) fn with_pool(mut self, pool: &BufferPool) -> Self {
        self.pool = Some(pool.clone());
        self
    }

    fn source(&self, unit: usize, layout: &Layout) -> GradientSource {
        match &self.sources {
            Some(sources) => sources[unit].clone(),
            None if layout.unit(unit).is_empty() => GradientSource::Nowhere,
            None => GradientSource::Rows(0, layout.unit(unit)),
        }
    }
}

impl GradientPiece for HostOuter {
    fn parameters(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        let sources: Vec<GradientSource> = (0..layout.units()).map(|unit| self.source(unit, layout)).collect();
        let mut norms = vec![0.0; sources.len()];
        for (index, product) in self.products.iter().enumerate() {
            let (units, rows): (Vec<usize>, Vec<Range<usize>>) = sources
                .iter()
                .enumerate()
                .filter_map(|(unit, source)| match source {
                    GradientSource::Rows(product, rows) if *product == index => Some((unit, rows.clone())),
                    _ => None,
                })
                .unzip();
            for (unit, norm) in units.into_iter().zip(product.squared_norms(&rows)) {
                norms[unit] = norm;
            }
        }
        for (norm, source) in norms.iter_mut().zip(&sources) {
            if let GradientSource::StoredSum(index) = source {
                *norm = self.kept[*index].1;
            }
        }
        norms
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        let units = HostQuantizer { outer: self, layout };
        if self.shape[0] <= TALLEST && sink.steps(at, self.shape, &units) {
            return;
        }
        sink.matrix(
            at,
            self.shape,
            [self.shape[0].max(1), WIDE],
            &|unit: usize, block: &MatrixBlock, target: &mut [f32]| {
                let strip = block.columns.start / WIDE;
                let mut write = |values: &[[f32; WIDE]]| {
                    let width = block.columns.len();
                    for (target, values) in target.chunks_exact_mut(width.max(1)).zip(values) {
                        target.copy_from_slice(&values[..width]);
                    }
                };
                match self.source(unit, layout) {
                    GradientSource::Nowhere => return false,
                    GradientSource::Rows(product, rows) => write(&self.products[product].strip(&rows, strip)),
                    GradientSource::StoredSum(index) => write(self.kept[index].0.strip(strip)),
                }
                true
            },
        );
    }

    fn add_to(&self, target: &mut [f32]) {
        self.products.iter().for_each(|product| product.add_to(target));
        self.kept.iter().for_each(|(kept, _)| kept.add_to(target));
    }
}

/// Quantizes the units of a [`HostOuter`].
struct HostQuantizer<'a> {
    outer: &'a HostOuter,
    layout: &'a Layout,
}

impl GridQuantizer for HostQuantizer<'_> {
    fn width(&self) -> usize {
        WIDE
    }

    fn height(&self) -> usize {
        height(self.outer.shape)
    }

    fn most(&self) -> u32 {
        MOST_STEPS
    }

    fn add(&self, unit: usize, strip: usize, factor: f32, away: bool, sums: &mut [i32]) -> u128 {
        match self.outer.source(unit, self.layout) {
            GradientSource::Nowhere => 0,
            GradientSource::Rows(product, rows) => {
                self.outer.products[product].quantize(&rows, strip, factor, away, sums)
            }
            GradientSource::StoredSum(index) => self.outer.kept[index].0.quantize(strip, factor, away, sums),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "the numbers of a test are in range")]

    use undertone_privacy::{NoiseMultiplier, SamplingRate};

    use super::{GradientSource, HostOuter};
    use crate::clip::ClippedSum;
    use crate::clip::grid::Clip;
    use crate::kernels::outer::{RowProducts, StoredSum};
    use crate::kernels::pack::{ColumnPanels, ColumnTiles};
    use crate::layers::{Gradient, GradientPiece, Layout};
    use crate::sampler::Sampler;

    const SHAPE: [usize; 2] = [11, 53];

    fn values(count: usize, by: usize) -> Vec<f32> {
        (0..count).map(|n| (n * by % 1009) as f32 / 500.0 - 1.0).collect()
    }

    fn outer(rows: std::ops::Range<usize>) -> RowProducts {
        let (left, right) = (values(100 * SHAPE[0], 37), values(100 * SHAPE[1], 53));
        let part = |side: &[f32], width: usize| side[rows.start * width..rows.end * width].to_vec();
        RowProducts::new(
            ColumnTiles::pack(&part(&left, SHAPE[0]), rows.len(), SHAPE[0]),
            ColumnPanels::pack(&part(&right, SHAPE[1]), rows.len(), SHAPE[1]),
        )
    }

    fn summed(piece: HostOuter, layout: &Layout, clip: Clip) -> Vec<i64> {
        let batch = Sampler::new(1, SamplingRate::ONE).draw_fresh();
        let mut sum = ClippedSum::begin(&batch, clip, piece.parameters());
        let mut gradient = Gradient::new();
        gradient.push("all", vec![Box::new(piece)]);
        sum.add_group(&gradient, layout);
        sum.in_test().to_vec()
    }

    /// Returns units of 30, 0, 5, 40 and 25 rows, all in one product.
    fn together() -> (HostOuter, Layout) {
        (HostOuter::new(outer(0..100)), Layout::new([vec![30], vec![], vec![2, 3], vec![40], vec![25]]))
    }

    fn apart() -> HostOuter {
        let stored = |rows| StoredSum::new(Vec::new(), &outer(rows));
        HostOuter::of_units(
            SHAPE,
            vec![outer(0..35), outer(75..100)],
            vec![stored(35..75)],
            vec![
                GradientSource::Rows(0, 0..30),
                GradientSource::Nowhere,
                GradientSource::Rows(0, 30..35),
                GradientSource::StoredSum(0),
                GradientSource::Rows(1, 0..25),
            ],
        )
    }

    #[test]
    fn gradient_location_changes_no_integer() {
        for (bound, z) in [(0.5, 1.0), (100.0, 1.0), (1e4, 4.0), (3.0, 0.01)] {
            let clip = Clip::new(bound, NoiseMultiplier::new(z).unwrap()).unwrap();
            let (piece, layout) = together();
            let all = summed(piece, &layout, clip);
            assert_eq!(all, summed(apart(), &layout, clip), "{bound} {z}");
            assert!(all.iter().any(|steps| *steps != 0));
        }
    }

    #[test]
    fn the_sum_of_a_group_is_the_sum_of_its_units_alone() {
        let clip = Clip::new(1.0, NoiseMultiplier::new(1.0).unwrap()).unwrap();
        let (piece, layout) = together();
        let all = summed(piece, &layout, clip);
        let mut total = vec![0; all.len()];
        for rows in [0..30, 30..35, 35..75, 75..100] {
            let alone = summed(HostOuter::new(outer(rows.clone())), &Layout::new([vec![rows.len()]]), clip);
            let squares: u128 = alone.iter().map(|steps| u128::from(steps.unsigned_abs()).pow(2)).sum();
            assert!(
                squares <= u128::from(clip.radius()).pow(2) && squares as f64 > 0.999 * (clip.radius() as f64).powi(2)
            );
            total.iter_mut().zip(alone).for_each(|(total, steps)| *total += steps);
        }
        assert_eq!(all, total);
    }

    #[test]
    fn steps_in_registers_are_those_of_numbers_written_down() {
        // A radius too large for 32-bit sums uses the other path; both truncate the same numbers to the same grid.
        let (piece, layout) = together();
        let fine = Clip::new(1e6, NoiseMultiplier::new(1.0 / 64.0).unwrap()).unwrap();
        let mut plain = vec![0.0; piece.parameters()];
        piece.add_to(&mut plain);
        for (steps, value) in summed(piece, &layout, fine).iter().zip(plain) {
            let exact = f64::from(value) / fine.step();
            assert!((*steps as f64 - exact).abs() <= 4.0 + exact.abs() * 1e-4, "{steps} {exact}");
        }
    }
}
