//! The gradient of a parameter matrix as a sum of outer products over a unit's rows: Σₜ aₜ bₜᵀ.
//!
//! Its squared norm is Σₜₛ (aₜ·aₛ)(bₜ·bₛ), which needs no matrix of the size of the parameters: the *ghost norm*. For T
//! rows of a `[m, n]` matrix it costs T (T + 128) (m + n) / 2 multiplications (blocks of 128 rows, each pair of blocks
//! once), the gradient itself T m n. Each unit uses the cheaper method, selected by its own T alone
//! ([`ghost_is_cheaper`]).

use std::ops::Range;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::host::HostOuter;
use super::rows::{host, tensor};
use super::{GradientPiece, GradientSink, Layout, MatrixBlock, Parameters};
use crate::device::is_cpu;
use crate::kernels::outer::RowProducts;
use crate::kernels::pack::{ColumnPanels, ColumnTiles};
use crate::matrix::{MatrixView, WriteMode, multiply, multiply_alone};

/// Rows per block of inner products.
const GHOST: usize = 128;
/// Maximum rows and columns of a gradient block. Its integer sums stay in the cache while all units are added.
const BLOCK: [usize; 2] = [256, 256];
/// Minimum rows of a matrix for which the kernels are faster: they process eight rows at a time.
const TALL: usize = 8;
/// Maximum coordinates that a device other than the CPU computes at a time: 16 MiB.
const DEVICE_BLOCK: usize = 1 << 22;

/// Rows of one operand, in the memory where they were computed.
#[expect(clippy::large_enum_variant, reason = "there are two for each piece")]
enum OperandRows {
    Host(Vec<f32>),
    Device(Tensor<2>),
}

/// The gradient Σₜ aₜ bₜᵀ of each unit: `[left, right]` row-major, of rows a `[rows, left]` and b `[rows, right]`.
pub struct OuterGradient(OuterBackend);

#[expect(clippy::large_enum_variant, reason = "there is one for each piece")]
enum OuterBackend {
    /// Hand-written loops.
    Kernels(HostOuter),
    /// Products of whole matrices.
    PlainProducts(PlainProducts),
}

/// Both operands, without packing.
struct PlainProducts {
    left: OperandRows,
    right: OperandRows,
    shape: [usize; 2],
}

impl OperandRows {
    fn new(rows: Tensor<2>) -> Self {
        if is_cpu(&rows.device()) { Self::Host(host(rows)) } else { Self::Device(rows) }
    }
}

/// Returns true if the ghost norm of `rows` outer products costs less than the matrix of their sum.
pub const fn ghost_is_cheaper(rows: usize, shape: [usize; 2]) -> bool {
    rows.saturating_add(GHOST).saturating_mul(shape[0] + shape[1]) < 2 * shape[0] * shape[1]
}

impl OuterGradient {
    /// Returns the gradient for rows on one device.
    ///
    /// # Panics
    /// If the operands differ in their number of rows.
    pub fn new(left: Tensor<2>, right: Tensor<2>) -> Self {
        let ([rows, m], [others, n]) = (left.dims(), right.dims());
        assert_eq!(rows, others, "each row has two sides");
        Self::of_sides(OperandRows::new(left), OperandRows::new(right), [m, n])
    }

    /// Returns the gradient for rows in host memory, `[rows, shape[0]]` and `[rows, shape[1]]` row-major.
    ///
    /// # Panics
    /// If the operands differ in their number of rows.
    pub fn of_host(left: Vec<f32>, right: Vec<f32>, shape: [usize; 2]) -> Self {
        Self::of_sides(OperandRows::Host(left), OperandRows::Host(right), shape)
    }

    fn of_sides(left: OperandRows, right: OperandRows, shape: [usize; 2]) -> Self {
        match (left, right) {
            (OperandRows::Host(left), OperandRows::Host(right)) if shape[0] >= TALL && shape[1] > 0 => {
                let rows = left.len() / shape[0];
                assert_eq!(right.len(), rows * shape[1], "each row has two sides");
                let (left, right) =
                    (ColumnTiles::pack(&left, rows, shape[0]), ColumnPanels::pack(&right, rows, shape[1]));
                Self(OuterBackend::Kernels(HostOuter::new(RowProducts::new(left, right))))
            }
            (left, right) => Self(OuterBackend::PlainProducts(PlainProducts { left, right, shape })),
        }
    }

    /// Returns the gradient by the coordinates of a parameter matrix, for the rows of the gradient by the matrix; none if it
    /// has no coordinate.
    ///
    /// # Panics
    /// If the operands differ in their number of rows, or the left one does not have a column for each row of the matrix.
    pub fn of_matrix(parameters: &Parameters<'_>, left: Tensor<2>, right: Tensor<2>) -> Option<Box<dyn GradientPiece>> {
        let left = parameters.project(left)?;
        Some(Box::new(Self::new(left, right)))
    }

    /// Returns the same gradient for rows in host memory, `[rows, shape[0]]` and `[rows, shape[1]]` row-major.
    ///
    /// # Panics
    /// As [`OuterGradient::of_matrix`].
    pub fn of_host_matrix(
        parameters: &Parameters<'_>,
        left: Vec<f32>,
        right: Vec<f32>,
        shape: [usize; 2],
    ) -> Option<Box<dyn GradientPiece>> {
        if !parameters.is_projected() {
            return Some(Box::new(Self::of_host(left, right, shape)));
        }
        let (device, rows) = (parameters.device(), left.len() / shape[0].max(1));
        Self::of_matrix(parameters, tensor(left, [rows, shape[0]], device), tensor(right, [rows, shape[1]], device))
    }

    /// Returns the gradient of parameters that are added or multiplied element by element: the sum of rows `[rows, n]`.
    pub fn sums(rows: Tensor<2>) -> Self {
        let [count, _] = rows.dims();
        Self::new(Tensor::ones([count, 1], &rows.device()), rows)
    }

    fn piece(&self) -> &dyn GradientPiece {
        match &self.0 {
            OuterBackend::Kernels(outer) => outer,
            OuterBackend::PlainProducts(outer) => outer,
        }
    }
}

impl GradientPiece for OuterGradient {
    fn parameters(&self) -> usize {
        self.piece().parameters()
    }

    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        self.piece().squared_norms(layout)
    }

    fn is_repeatable(&self) -> bool {
        self.piece().is_repeatable()
    }

    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        self.piece().stream(layout, at, sink);
    }

    fn add_to(&self, target: &mut [f32]) {
        self.piece().add_to(target);
    }
}

impl PlainProducts {
    fn block(&self) -> [usize; 2] {
        let [m, n] = self.shape;
        match self.left {
            OperandRows::Host(_) => [BLOCK[0].min(m), BLOCK[1].min(n)],
            OperandRows::Device(_) => [(DEVICE_BLOCK / n.max(1)).clamp(1, m.max(1)), n],
        }
    }

    /// Returns both operands of `rows`, if they are in host memory.
    fn views(&self, rows: &Range<usize>) -> Option<(MatrixView<'_>, MatrixView<'_>)> {
        let [m, n] = self.shape;
        match (&self.left, &self.right) {
            (OperandRows::Host(left), OperandRows::Host(right)) => Some((
                MatrixView::new(&left[rows.start * m..rows.end * m], rows.len(), m),
                MatrixView::new(&right[rows.start * n..rows.end * n], rows.len(), n),
            )),
            _ => None,
        }
    }

    /// Returns both operands of `rows`, if they are on a device.
    fn tensors(&self, rows: &Range<usize>) -> Option<(Tensor<2>, Tensor<2>)> {
        match (&self.left, &self.right) {
            (OperandRows::Device(left), OperandRows::Device(right)) => {
                Some((left.clone().slice([rows.clone()]), right.clone().slice([rows.clone()])))
            }
            _ => None,
        }
    }

    fn squared_norm(&self, rows: &Range<usize>, ghost: bool) -> f64 {
        if let Some((left, right)) = self.views(rows) {
            return if ghost { ghost_norm(left, right, rows.len()) } else { direct_norm(left, right, self.shape) };
        }
        let Some((left, right)) = self.tensors(rows) else { return 0.0 };
        let squared = if ghost {
            left.clone().matmul(left.transpose()) * right.clone().matmul(right.transpose())
        } else {
            left.transpose().matmul(right).square()
        };
        f64::from(squared.sum().into_scalar::<f32>())
    }

    fn squared_norms_by(&self, layout: &Layout, ghost: impl Fn(usize) -> bool + Sync) -> Vec<f64> {
        let one = |unit: usize| {
            let rows = layout.unit(unit);
            if rows.is_empty() { 0.0 } else { self.squared_norm(&rows, ghost(rows.len())) }
        };
        (0..layout.units()).into_par_iter().map(one).collect()
    }
}

impl GradientPiece for PlainProducts {
    fn parameters(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        self.squared_norms_by(layout, |rows| ghost_is_cheaper(rows, self.shape))
    }

    /// Returns false on a device: two launches of one product may differ in their last bits.
    fn is_repeatable(&self) -> bool {
        matches!((&self.left, &self.right), (OperandRows::Host(_), OperandRows::Host(_)))
    }

    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        sink.matrix(at, self.shape, self.block(), &|unit: usize, block: &MatrixBlock, target: &mut [f32]| {
            let rows = layout.unit(unit);
            if rows.is_empty() {
                return false;
            }
            if let Some((left, right)) = self.views(&rows) {
                let left_block = left.columns(block.rows.clone()).transposed();
                multiply_alone(target, left_block, right.columns(block.columns.clone()), WriteMode::Replace);
            } else if let Some((left, right)) = self.tensors(&rows) {
                let left_block = left.slice([0..rows.len(), block.rows.clone()]).transpose();
                target.copy_from_slice(&host(left_block.matmul(right)));
            }
            true
        });
    }

    fn add_to(&self, target: &mut [f32]) {
        assert_eq!(target.len(), self.parameters(), "the gradient of a matrix");
        match (&self.left, &self.right) {
            (OperandRows::Host(left), OperandRows::Host(_)) => {
                let rows = 0..left.len() / self.shape[0].max(1);
                if let Some((left, right)) = self.views(&rows) {
                    multiply(target, left.transposed(), right, WriteMode::Add);
                }
            }
            (OperandRows::Device(left), OperandRows::Device(right)) => {
                let sum = host(left.clone().transpose().matmul(right.clone()));
                target.iter_mut().zip(sum).for_each(|(target, value)| *target += value);
            }
            _ => {}
        }
    }
}

/// Returns Σₜₛ (aₜ·aₛ)(bₜ·bₛ), computed by blocks of rows, each pair once.
fn ghost_norm(left: MatrixView<'_>, right: MatrixView<'_>, rows: usize) -> f64 {
    let mut products = (vec![0.0_f32; GHOST * GHOST], vec![0.0_f32; GHOST * GHOST]);
    let blocks = || (0..rows).step_by(GHOST).map(|start| start..(start + GHOST).min(rows));
    let mut sum = 0.0;
    for first in blocks() {
        for second in blocks().take_while(|second| second.start <= first.start) {
            let size = first.len() * second.len();
            let inner = |side: MatrixView<'_>, target: &mut [f32]| {
                multiply_alone(
                    target,
                    side.rows(first.clone()),
                    side.rows(second.clone()).transposed(),
                    WriteMode::Replace,
                );
            };
            inner(left, &mut products.0[..size]);
            inner(right, &mut products.1[..size]);
            let both = products.0[..size].iter().zip(&products.1[..size]);
            let block: f64 = both.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            sum += if first == second { block } else { 2.0 * block };
        }
    }
    sum
}

/// Returns the squared norm of the matrix itself, computed block by block.
fn direct_norm(left: MatrixView<'_>, right: MatrixView<'_>, [m, n]: [usize; 2]) -> f64 {
    let mut product = vec![0.0_f32; BLOCK[0].min(m) * BLOCK[1].min(n)];
    let mut sum = 0.0;
    for row in (0..m).step_by(BLOCK[0]) {
        let left_block = left.columns(row..(row + BLOCK[0]).min(m)).transposed();
        for column in (0..n).step_by(BLOCK[1]) {
            let columns = column..(column + BLOCK[1]).min(n);
            let product = &mut product[..(BLOCK[0].min(m - row)) * columns.len()];
            multiply_alone(product, left_block, right.columns(columns), WriteMode::Replace);
            sum += product.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, GHOST, OperandRows, OuterGradient, PlainProducts, ghost_is_cheaper};
    use crate::layers::{GradientPiece, Layout};

    fn rows(count: usize, width: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count * width).map(|_| next()).collect()
    }

    #[test]
    fn ghost_and_direct_norms_agree() {
        let shape = [BLOCK[0] + 9, BLOCK[1] + 5];
        let layout = Layout::new([vec![1], vec![GHOST], vec![GHOST + 1, GHOST], vec![], vec![7]]);
        let (left, right) = (rows(layout.rows(), shape[0], 1), rows(layout.rows(), shape[1], 2));
        let by_kernels = OuterGradient::of_host(left.clone(), right.clone(), shape).squared_norms(&layout);
        let outer = PlainProducts { left: OperandRows::Host(left), right: OperandRows::Host(right), shape };
        let (ghost, direct) = (outer.squared_norms_by(&layout, |_| true), outer.squared_norms_by(&layout, |_| false));
        for (unit, (ghost, direct)) in ghost.iter().zip(&direct).enumerate() {
            assert!((ghost - direct).abs() <= 1e-5 * direct, "unit {unit}: {ghost} {direct}");
            assert!((by_kernels[unit] - direct).abs() <= 1e-5 * direct, "unit {unit}: {by_kernels:?} {direct}");
        }
        assert!(direct[2] > direct[0] && direct[3] == 0.0, "{direct:?}");
    }

    #[test]
    fn the_cheaper_norm_depends_on_the_rows_and_the_shape() {
        assert!(ghost_is_cheaper(50, [201, 9096]) && ghost_is_cheaper(200, [201, 9096]));
        assert!(!ghost_is_cheaper(800, [201, 9096]) && !ghost_is_cheaper(200, [1, 400]));
    }
}
