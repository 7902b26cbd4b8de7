//! A matrix cut in panels of a few columns, and the product of scattered rows with it.
//!
//! Each element is one chain of fused multiply-adds from the first row of the matrix to the last: the same bits in any
//! company of rows, on any processor.

/// Columns of a panel.
const COLUMNS: usize = 16;
/// Rows multiplied at a time: 6 × 16 sums stay in the registers of AVX2.
const ROWS: usize = 6;

/// A `[rows, columns]` matrix as `[⌈columns / 16⌉, rows, 16]`, the rest filled with zeros.
pub(super) struct Panels {
    data: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Panels {
    /// Of a row-major matrix.
    pub(super) fn new(matrix: &[f32], rows: usize, columns: usize) -> Self {
        Self::from_fn(rows, columns, |row, column| matrix[row * columns + column])
    }

    /// Of the transpose of a row-major `[columns, rows]` matrix.
    pub(super) fn transposed(matrix: &[f32], columns: usize, rows: usize) -> Self {
        Self::from_fn(rows, columns, |row, column| matrix[column * rows + row])
    }

    fn from_fn(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> Self {
        let mut data = vec![0.0; columns.div_ceil(COLUMNS) * rows * COLUMNS];
        for (place, value) in data.iter_mut().enumerate() {
            let (line, column) = (place / COLUMNS, place % COLUMNS);
            let (row, column) = (line % rows, line / rows * COLUMNS + column);
            if column < columns {
                *value = element(row, column);
            }
        }
        Self { data, rows, columns }
    }

    /// Rows of `source` (beginning at `from`, each as long as the matrix has rows) times the matrix, into rows of `target`
    /// (beginning at `to`).
    #[inline(always)]
    pub(super) fn multiply(&self, source: &[f32], from: &[usize], target: &mut [f32], to: &[usize]) {
        for (index, panel) in self.data.chunks_exact(self.rows * COLUMNS).enumerate() {
            let (panel, _) = panel.as_chunks::<COLUMNS>();
            let start = index * COLUMNS;
            let width = COLUMNS.min(self.columns - start);
            for (from, to) in from.chunks(ROWS).zip(to.chunks(ROWS)) {
                let mut store = |row: usize, sums: &[f32; COLUMNS]| {
                    let target = &mut target[to[row] + start..][..width];
                    if let Ok(target) = <&mut [f32; COLUMNS]>::try_from(&mut *target) {
                        *target = *sums;
                    } else {
                        target.copy_from_slice(&sums[..width]);
                    }
                };
                match from.len() {
                    6 => block::<6>(panel, source, from, &mut store),
                    5 => block::<5>(panel, source, from, &mut store),
                    4 => block::<4>(panel, source, from, &mut store),
                    3 => block::<3>(panel, source, from, &mut store),
                    2 => block::<2>(panel, source, from, &mut store),
                    _ => block::<1>(panel, source, from, &mut store),
                }
            }
        }
    }
}

#[inline(always)]
fn block<const R: usize>(
    panel: &[[f32; COLUMNS]],
    source: &[f32],
    from: &[usize],
    store: &mut impl FnMut(usize, &[f32; COLUMNS]),
) {
    let rows: [&[f32]; R] = std::array::from_fn(|row| &source[from[row]..][..panel.len()]);
    let mut sums = [[0.0_f32; COLUMNS]; R];
    for (k, weights) in panel.iter().enumerate() {
        for r in 0..R {
            let factor = rows[r][k];
            for c in 0..COLUMNS {
                sums[r][c] = factor.mul_add(weights[c], sums[r][c]);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        store(row, sums);
    }
}
