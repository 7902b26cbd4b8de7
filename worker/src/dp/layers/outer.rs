//! The gradient of a parameter matrix as a sum of outer products over a unit's rows: Σₜ aₜ bₜᵀ.
//!
//! Its squared norm is Σₜₛ (aₜ·aₛ)(bₜ·bₛ), which needs no matrix of the size of the parameters: the *ghost norm*. For T rows
//! of a `[m, n]` matrix it costs T (T + 128) (m + n) / 2 multiplications (blocks of 128 rows; each pair of blocks once),
//! the gradient itself T m n. The cheaper is taken for each unit by its own T alone ([`ghost_is_cheaper`]).

use std::ops::Range;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::host::HostOuter;
use super::rows::host;
use super::{Block, Layout, Piece, Sink};
use crate::dp::device::is_cpu;
use crate::dp::kernels::outer::Outer as Products;
use crate::dp::kernels::pack::{Panels, Tiles};
use crate::dp::matrix::{Into, View, multiply, multiply_alone};

/// Rows whose inner products exist at a time.
const GHOST: usize = 128;
/// Most rows and columns of a block of the gradient: its integer sums stay in the cache while unit after unit is added.
const BLOCK: [usize; 2] = [256, 256];
/// Fewest rows of a matrix for which the kernels pay: they take eight at a time.
const TALL: usize = 8;
/// Most coordinates that a device other than the CPU computes at a time: 16 MiB.
const DEVICE_BLOCK: usize = 1 << 22;

/// Rows of one side, where they were computed.
#[expect(clippy::large_enum_variant, reason = "there are two for each piece")]
enum Side {
    Host(Vec<f32>),
    Device(Tensor<2>),
}

/// Σₜ aₜ bₜᵀ for each unit: `[left, right]` row-major, of rows a `[rows, left]` and b `[rows, right]`.
pub struct Outer(Sides);

#[expect(clippy::large_enum_variant, reason = "there is one for each piece")]
enum Sides {
    /// By loops of ours.
    Kernels(HostOuter),
    /// By products of whole matrices.
    Plain(Plain),
}

/// Both sides as they are.
struct Plain {
    left: Side,
    right: Side,
    shape: [usize; 2],
}

impl Side {
    fn new(rows: Tensor<2>) -> Self {
        if is_cpu(&rows.device()) { Self::Host(host(rows)) } else { Self::Device(rows) }
    }
}

/// Whether the ghost norm of `rows` outer products costs less than the matrix of their sum.
pub const fn ghost_is_cheaper(rows: usize, shape: [usize; 2]) -> bool {
    rows.saturating_add(GHOST).saturating_mul(shape[0] + shape[1]) < 2 * shape[0] * shape[1]
}

impl Outer {
    /// Of rows on one device.
    ///
    /// # Panics
    /// If there are not equally many on both sides.
    pub fn new(left: Tensor<2>, right: Tensor<2>) -> Self {
        let ([rows, m], [others, n]) = (left.dims(), right.dims());
        assert_eq!(rows, others, "each row has two sides");
        Self::of_sides(Side::new(left), Side::new(right), [m, n])
    }

    /// Of rows of this process, `[rows, shape[0]]` and `[rows, shape[1]]` row-major.
    ///
    /// # Panics
    /// If there are not equally many on both sides.
    pub fn of_host(left: Vec<f32>, right: Vec<f32>, shape: [usize; 2]) -> Self {
        Self::of_sides(Side::Host(left), Side::Host(right), shape)
    }

    fn of_sides(left: Side, right: Side, shape: [usize; 2]) -> Self {
        match (left, right) {
            (Side::Host(left), Side::Host(right)) if shape[0] >= TALL && shape[1] > 0 => {
                let rows = left.len() / shape[0];
                assert_eq!(right.len(), rows * shape[1], "each row has two sides");
                let (left, right) = (Tiles::pack(&left, rows, shape[0]), Panels::pack(&right, rows, shape[1]));
                Self(Sides::Kernels(HostOuter::new(Products::new(left, right))))
            }
            (left, right) => Self(Sides::Plain(Plain { left, right, shape })),
        }
    }

    /// Of sums of rows `[rows, n]`: the gradient of parameters that are added or multiplied element by element.
    pub fn sums(rows: Tensor<2>) -> Self {
        let [count, _] = rows.dims();
        Self::new(Tensor::ones([count, 1], &rows.device()), rows)
    }

    fn piece(&self) -> &dyn Piece {
        match &self.0 {
            Sides::Kernels(outer) => outer,
            Sides::Plain(outer) => outer,
        }
    }
}

impl Piece for Outer {
    fn parameters(&self) -> usize {
        self.piece().parameters()
    }

    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        self.piece().squared_norms(layout)
    }

    fn is_repeatable(&self) -> bool {
        self.piece().is_repeatable()
    }

    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn Sink) {
        self.piece().stream(layout, at, sink);
    }

    fn add_to(&self, target: &mut [f32]) {
        self.piece().add_to(target);
    }
}

impl Plain {
    fn block(&self) -> [usize; 2] {
        let [m, n] = self.shape;
        match self.left {
            Side::Host(_) => [BLOCK[0].min(m), BLOCK[1].min(n)],
            Side::Device(_) => [(DEVICE_BLOCK / n.max(1)).clamp(1, m.max(1)), n],
        }
    }

    /// Both sides of some rows, where they lie in this process.
    fn views(&self, rows: &Range<usize>) -> Option<(View<'_>, View<'_>)> {
        let [m, n] = self.shape;
        match (&self.left, &self.right) {
            (Side::Host(left), Side::Host(right)) => Some((
                View::new(&left[rows.start * m..rows.end * m], rows.len(), m),
                View::new(&right[rows.start * n..rows.end * n], rows.len(), n),
            )),
            _ => None,
        }
    }

    /// Both sides of some rows, where they lie on a device.
    fn tensors(&self, rows: &Range<usize>) -> Option<(Tensor<2>, Tensor<2>)> {
        match (&self.left, &self.right) {
            (Side::Device(left), Side::Device(right)) => {
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

impl Piece for Plain {
    fn parameters(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        self.squared_norms_by(layout, |rows| ghost_is_cheaper(rows, self.shape))
    }

    /// Two launches of one product need not agree in their last bits.
    fn is_repeatable(&self) -> bool {
        matches!((&self.left, &self.right), (Side::Host(_), Side::Host(_)))
    }

    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn Sink) {
        sink.matrix(at, self.shape, self.block(), &|unit: usize, block: &Block, target: &mut [f32]| {
            let rows = layout.unit(unit);
            if rows.is_empty() {
                return false;
            }
            if let Some((left, right)) = self.views(&rows) {
                let left = left.columns(block.rows.clone()).transposed();
                multiply_alone(target, left, right.columns(block.columns.clone()), Into::Replace);
            } else if let Some((left, right)) = self.tensors(&rows) {
                let left = left.slice([0..rows.len(), block.rows.clone()]).transpose();
                target.copy_from_slice(&host(left.matmul(right)));
            }
            true
        });
    }

    fn add_to(&self, target: &mut [f32]) {
        assert_eq!(target.len(), self.parameters(), "the gradient of a matrix");
        match (&self.left, &self.right) {
            (Side::Host(left), Side::Host(_)) => {
                let rows = 0..left.len() / self.shape[0].max(1);
                if let Some((left, right)) = self.views(&rows) {
                    multiply(target, left.transposed(), right, Into::Add);
                }
            }
            (Side::Device(left), Side::Device(right)) => {
                let sum = host(left.clone().transpose().matmul(right.clone()));
                target.iter_mut().zip(sum).for_each(|(target, value)| *target += value);
            }
            _ => {}
        }
    }
}

/// Σₜₛ (aₜ·aₛ)(bₜ·bₛ), block of rows by block of rows, each pair once.
fn ghost_norm(left: View<'_>, right: View<'_>, rows: usize) -> f64 {
    let mut products = (vec![0.0_f32; GHOST * GHOST], vec![0.0_f32; GHOST * GHOST]);
    let blocks = || (0..rows).step_by(GHOST).map(|start| start..(start + GHOST).min(rows));
    let mut sum = 0.0;
    for first in blocks() {
        for second in blocks().take_while(|second| second.start <= first.start) {
            let size = first.len() * second.len();
            let inner = |side: View<'_>, target: &mut [f32]| {
                multiply_alone(target, side.rows(first.clone()), side.rows(second.clone()).transposed(), Into::Replace);
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

/// The squared norm of the matrix itself, block by block.
fn direct_norm(left: View<'_>, right: View<'_>, [m, n]: [usize; 2]) -> f64 {
    let mut product = vec![0.0_f32; BLOCK[0].min(m) * BLOCK[1].min(n)];
    let mut sum = 0.0;
    for row in (0..m).step_by(BLOCK[0]) {
        let left = left.columns(row..(row + BLOCK[0]).min(m)).transposed();
        for column in (0..n).step_by(BLOCK[1]) {
            let columns = column..(column + BLOCK[1]).min(n);
            let product = &mut product[..(BLOCK[0].min(m - row)) * columns.len()];
            multiply_alone(product, left, right.columns(columns), Into::Replace);
            sum += product.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, GHOST, Outer, Plain, Side, ghost_is_cheaper};
    use crate::dp::layers::{Layout, Piece};

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
        let by_kernels = Outer::of_host(left.clone(), right.clone(), shape).squared_norms(&layout);
        let outer = Plain { left: Side::Host(left), right: Side::Host(right), shape };
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
