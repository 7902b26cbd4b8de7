//! The inner loops: blocks of a product whose sums stay in the processor's registers.
//!
//! Each element is one chain of fused multiply-adds along the inner dimension, from its start to its end: the same bits
//! with any other rows and columns, however the inner dimension is split into pieces.
//!
//! Sums are passed and returned by value. Through a reference, the compiler would write them to memory at every step,
//! because code that runs after a panic could read them.

use super::lanes::{SimdKernel, SimdLanes, dispatch};
use super::pack::{ColumnPanels, TALL, WIDE};

/// Vectors per row whose sums stay in registers.
pub(super) const VECTORS: usize = 3;

/// Sums of a block: rows by vectors.
pub(super) type Sums<S, const R: usize, const V: usize = VECTORS> = [[<S as pulp::Simd>::f32s; V]; R];

#[inline(always)]
pub(super) fn zero<S: SimdLanes, const R: usize>(simd: S) -> Sums<S, R> {
    [[simd.splat_f32s(0.0); VECTORS]; R]
}

/// Returns `V` vectors of a panel row, starting with vector `first`.
#[inline(always)]
pub(super) fn vectors<S: SimdLanes, const V: usize>(row: &[f32; WIDE], first: usize) -> [S::f32s; V] {
    let row = S::as_simd_f32s(row).0;
    std::array::from_fn(|v| row[first + v])
}

/// Returns sums + leftᵀ · right over rows that both share, with the columns `row..row + R` of a tile on the left and
/// the vectors from `first` on the right.
#[inline(always)]
pub(super) fn add<S: SimdLanes, const R: usize>(
    simd: S,
    mut sums: Sums<S, R>,
    left: &[[f32; TALL]],
    row: usize,
    right: &[[f32; WIDE]],
    first: usize,
) -> Sums<S, R> {
    for (left, right) in left.iter().zip(right) {
        let right = vectors::<S, VECTORS>(right, first);
        for r in 0..R {
            let factor = simd.splat_f32s(left[row + r]);
            for v in 0..VECTORS {
                sums[r][v] = simd.mul_add_f32s(factor, right[v], sums[r][v]);
            }
        }
    }
    sums
}

/// Returns sums + left · right: `R` rows of a panel times the rows of another matrix, at most 48.
#[inline(always)]
pub(super) fn add_rows<S: SimdLanes, const R: usize, const V: usize>(
    simd: S,
    mut sums: Sums<S, R, V>,
    left: &[[f32; WIDE]],
    right: &[[f32; WIDE]],
    first: usize,
) -> Sums<S, R, V> {
    let left_rows: [&[f32; WIDE]; R] = std::array::from_fn(|r| &left[r]);
    for (k, right) in right.iter().enumerate().take(WIDE) {
        let right = vectors::<S, V>(right, first);
        for r in 0..R {
            let factor = simd.splat_f32s(left_rows[r][k]);
            for v in 0..V {
                sums[r][v] = simd.mul_add_f32s(factor, right[v], sums[r][v]);
            }
        }
    }
    sums
}

/// Calls a function with the number of rows, up to eight, as a constant.
macro_rules! by_rows {
    ($rows:expr, $function:ident::<$simd:ty>($($argument:expr),*)) => {
        match $rows {
            8 => $function::<$simd, 8>($($argument),*),
            7 => $function::<$simd, 7>($($argument),*),
            6 => $function::<$simd, 6>($($argument),*),
            5 => $function::<$simd, 5>($($argument),*),
            4 => $function::<$simd, 4>($($argument),*),
            3 => $function::<$simd, 3>($($argument),*),
            2 => $function::<$simd, 2>($($argument),*),
            _ => $function::<$simd, 1>($($argument),*),
        }
    };
}
pub(super) use by_rows;

/// Multiplies rows of `source` (starting at the offsets `from`, each as long as the matrix has rows) with a matrix and
/// writes the products to rows of `target` (starting at the offsets `to`, each as long as the matrix has columns).
///
/// # Panics
/// If `from` and `to` differ in length, or a slice ends before one of its rows.
pub(crate) fn multiply(matrix: &ColumnPanels, source: &[f32], from: &[usize], target: &mut [f32], to: &[usize]) {
    assert_eq!(from.len(), to.len(), "a row for each row");
    dispatch(MultiplyKernel { matrix, source, from, target, to });
}

struct MultiplyKernel<'a> {
    matrix: &'a ColumnPanels,
    source: &'a [f32],
    from: &'a [usize],
    target: &'a mut [f32],
    to: &'a [usize],
}

impl SimdKernel for MultiplyKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) {
        let Self { matrix, source, from, target, to } = self;
        let inner = matrix.rows();
        for index in 0..matrix.panels() {
            let panel = matrix.panel(index);
            for (from, to) in from.chunks(S::ROWS).zip(to.chunks(S::ROWS)) {
                let place =
                    RowTarget { inner, start: index * WIDE, width: WIDE.min(matrix.columns() - index * WIDE), to };
                by_rows!(from.len(), rows::<S>(simd, panel, source, from, target, &place));
            }
        }
    }
}

/// The destination of a block's results.
struct RowTarget<'a> {
    inner: usize,
    start: usize,
    width: usize,
    to: &'a [usize],
}

#[inline(always)]
fn rows<S: SimdLanes, const R: usize>(
    simd: S,
    panel: &[[f32; WIDE]],
    source: &[f32],
    from: &[usize],
    target: &mut [f32],
    place: &RowTarget<'_>,
) {
    let rows: [&[f32]; R] = std::array::from_fn(|row| &source[from[row]..][..place.inner]);
    for first in (0..place.width.div_ceil(S::F32_LANES)).step_by(VECTORS) {
        let sums = chains::<S, R>(simd, &rows, panel, first);
        let start = first * S::F32_LANES;
        let width = (place.width - start).min(VECTORS * S::F32_LANES);
        for (sums, to) in sums.iter().zip(place.to) {
            let sums: &[f32] = bytemuck::cast_slice(sums);
            target[to + place.start + start..][..width].copy_from_slice(&sums[..width]);
        }
    }
}

/// Returns the product of `R` rows and three vectors of a panel.
#[inline(always)]
fn chains<S: SimdLanes, const R: usize>(
    simd: S,
    rows: &[&[f32]; R],
    panel: &[[f32; WIDE]],
    first: usize,
) -> Sums<S, R> {
    let mut sums = zero::<S, R>(simd);
    for (k, right) in panel.iter().enumerate() {
        let right = vectors::<S, VECTORS>(right, first);
        for r in 0..R {
            let factor = simd.splat_f32s(rows[r][k]);
            for v in 0..VECTORS {
                sums[r][v] = simd.mul_add_f32s(factor, right[v], sums[r][v]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::multiply;
    use crate::kernels::pack::ColumnPanels;

    #[test]
    fn row_product_has_the_same_bits_with_any_other_rows() {
        let values =
            |count: usize, by: usize| (0..count).map(|n| (n * by % 101) as f32 / 40.0 - 1.2).collect::<Vec<_>>();
        for (count, inner, columns) in [(1, 3, 5), (9, 21, 48), (23, 50, 101), (4, 0, 7)] {
            let (rows, matrix) = (values(count * inner, 37), values(inner * columns, 53));
            let panels = ColumnPanels::pack(&matrix, inner, columns);
            let offsets = |width: usize| (0..count).map(|row| row * width).collect::<Vec<_>>();
            let mut together = vec![9.0; count * columns];
            multiply(&panels, &rows, &offsets(inner), &mut together, &offsets(columns));
            let turned: Vec<f32> =
                (0..columns * inner).map(|n| matrix[n % inner.max(1) * columns + n / inner.max(1)]).collect();
            let turned = ColumnPanels::pack_transposed(&turned, columns, inner);
            for row in 0..count {
                let mut alone = vec![9.0; columns];
                multiply(&turned, &rows, &[row * inner], &mut alone, &[0]);
                for (column, value) in alone.iter().enumerate() {
                    let chain = (0..inner)
                        .fold(0.0, |sum: f32, k| rows[row * inner + k].mul_add(matrix[k * columns + column], sum));
                    assert_eq!(value.to_bits(), chain.to_bits(), "{row} {column}");
                    assert_eq!(value.to_bits(), together[row * columns + column].to_bits(), "{row} {column}");
                }
            }
        }
    }
}
