//! The contribution of a layer to every unit's gradient, without that gradient.
//!
//! For most layers, a unit's gradient of a parameter matrix is a product of two matrices over the unit's rows that the
//! passes compute anyway: the inputs and the derivatives by the outputs. A [`GradientPiece`] stores these two. It computes the
//! norm of each unit's gradient (the *ghost norm* of Goodfellow 2015 and Li et al. 2022, or the product itself,
//! whichever is cheaper) and, block by block, the gradient. So no memory of the size of one gradient per unit is
//! allocated ("book-keeping", Bu et al. 2023: one forward and one backward pass). To add a kind of gradient, implement
//! the trait.

use std::ops::Range;

use super::Layout;

/// A block of a parameter matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixBlock {
    /// The rows of the block.
    pub rows: Range<usize>,
    /// The columns of the block.
    pub columns: Range<usize>,
}

impl MatrixBlock {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Returns true if the block has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes a unit's gradient of a block, `[rows, columns]` row-major, over every element, and returns true. Returns
/// false, possibly without writing, if all elements are zero.
pub type BlockFill<'a> = dyn Fn(usize, &MatrixBlock, &mut [f32]) -> bool + Sync + 'a;

/// Passes the nonzero runs of a unit's gradient to a function: the first coordinate of each run and its values. No
/// coordinate is in two runs of a unit, which would escape its norm.
pub type SparseFill<'a> = dyn Fn(usize, &mut dyn FnMut(usize, &[f32])) + 'a;

/// Receives the gradients of all units of a group, block by block.
pub trait GradientSink {
    /// Receives the gradients of one parameter matrix, `[rows, columns]` row-major, that begins at coordinate `at` of
    /// its part. The sink calls `fill` for the units, in the order and on the threads that it selects. Blocks have the
    /// size `block` (smaller at the edges), so a unit's numbers are computed with the same shapes in any group.
    fn matrix(&mut self, at: usize, shape: [usize; 2], block: [usize; 2], fill: &BlockFill<'_>);

    /// Receives gradients with few nonzero coordinates; the first parameter is coordinate `at` of its part. Returns false if
    /// the sink cannot use them; then the caller calls [`GradientSink::matrix`].
    fn sparse(&mut self, _at: usize, _fill: &SparseFill<'_>) -> bool {
        false
    }

    /// Receives the gradients of a matrix that can be quantized where they are computed, before they are written to
    /// memory. Returns false if the sink cannot use them; then the caller calls [`GradientSink::matrix`].
    fn steps(&mut self, _at: usize, _shape: [usize; 2], _steps: &dyn GridQuantizer) -> bool {
        false
    }
}

/// Quantizes the gradients of units by a parameter matrix to whole steps while they are in registers.
pub trait GridQuantizer: Sync {
    /// Returns the number of columns of a strip.
    fn width(&self) -> usize;

    /// Returns the number of rows of a strip's integers, at least the number of rows of the matrix.
    fn height(&self) -> usize;

    /// Returns the maximum of a coordinate in steps; a larger coordinate counts as this maximum.
    fn most(&self) -> u32;

    /// Adds a unit's gradient of a strip, scaled by `factor` and truncated toward zero, to integers `[height, width]`,
    /// or subtracts it with `away`. Returns the sum of the squares of the steps.
    fn add(&self, unit: usize, strip: usize, factor: f32, away: bool, sums: &mut [i32]) -> u128;
}

/// A range of parameters, with the data from which each unit's gradient by them is computed.
///
/// Each result about a unit must be a function of that unit alone. The shapes, order and operands of the operations may
/// depend on the unit's own rows only, bit for bit unless [`GradientPiece::is_repeatable`] returns false.
pub trait GradientPiece: Send + Sync {
    /// Returns the number of parameters.
    fn parameters(&self) -> usize;

    /// Returns the squared norm of each unit's gradient, not finite if the gradient is not. This is a floating-point
    /// estimate; the release is verified in integers.
    fn squared_norms(&self, layout: &Layout) -> Vec<f64>;

    /// Returns true if a unit's gradient has the same bits on every call. Devices do not guarantee that, so their
    /// results are copied once ([`crate::clip`]).
    fn is_repeatable(&self) -> bool;

    /// Passes each unit's gradient to a sink; the first parameter is coordinate `at` of its part.
    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn GradientSink);

    /// Adds the unclipped sum of all units' gradients to `target`, for data that are public or disclosed by their
    /// owner.
    ///
    /// # Panics
    /// If the length of `target` differs from the number of parameters.
    fn add_to(&self, target: &mut [f32]);
}

/// The derivatives of a group by named parts of the parameters.
#[derive(Default)]
pub struct Gradient {
    parts: Vec<(String, Vec<Box<dyn GradientPiece>>)>,
}

impl Gradient {
    /// Returns a gradient without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a part.
    pub fn push(&mut self, name: impl Into<String>, pieces: Vec<Box<dyn GradientPiece>>) {
        self.parts.push((name.into(), pieces));
    }

    /// Appends the parts of `other`.
    pub fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// Returns names and pieces, in the order of the parameters.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&str, &[Box<dyn GradientPiece>])> + '_ {
        self.parts.iter().map(|(name, pieces)| (name.as_str(), pieces.as_slice()))
    }

    /// Returns the number of parameters of each part.
    pub fn lengths(&self) -> Vec<usize> {
        self.parts.iter().map(|(_, pieces)| length(pieces)).collect()
    }

    /// Adds the unclipped sum of all units' gradients to `target`, for data that are public or disclosed by their
    /// owner.
    ///
    /// # Panics
    /// If the length of `target` differs from that of all parts together.
    pub fn add_to(&self, target: &mut [f32]) {
        let mut rest = target;
        for piece in self.parts.iter().flat_map(|(_, pieces)| pieces) {
            let (own, after) = rest.split_at_mut(piece.parameters());
            piece.add_to(own);
            rest = after;
        }
        assert!(rest.is_empty(), "a target as long as the gradient");
    }
}

/// Returns the number of parameters of all `pieces`.
pub(crate) fn length(pieces: &[Box<dyn GradientPiece>]) -> usize {
    pieces.iter().map(|piece| piece.parameters()).sum()
}
