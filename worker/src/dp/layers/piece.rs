//! What a layer leaves behind for its part of every unit's gradient, without that gradient.
//!
//! For most layers a unit's gradient of a parameter matrix is a product of two things that the passes compute anyway, over
//! the unit's rows: what went in, and the derivatives by what came out. A [`Piece`] keeps these two and answers two
//! questions: how long each unit's gradient is (the *ghost norm* of Goodfellow 2015 and Li et al. 2022, or the product
//! itself, whichever is cheaper), and, block by block, what it is. So nothing the size of one gradient per unit ever exists
//! ("book-keeping", Bu et al. 2023: one forward and one backward pass). To add a kind of gradient, implement the trait.

use std::ops::Range;

use super::Layout;

/// A block of a matrix of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
}

impl Block {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes a unit's gradient of a block, `[rows, columns]` row-major; every element, whatever was there. Says whether there is
/// anything but zeros; where it says no, it need not have written.
pub type Fill<'a> = dyn Fn(usize, &Block, &mut [f32]) -> bool + Sync + 'a;

/// Takes the gradients of all units of a group, block by block.
pub trait Sink {
    /// Takes the gradients of one matrix of parameters, `[rows, columns]` row-major, that begins at coordinate `at` of its
    /// part. The sink decides for which units it asks, when and on which thread; blocks are `block` large (smaller at the
    /// edges), so that a unit's numbers are computed by the same shapes in any company.
    fn matrix(&mut self, at: usize, shape: [usize; 2], block: [usize; 2], fill: &Fill<'_>);

    /// The same of a matrix whose gradients can be cut to steps where they are computed, before they are ever written down;
    /// false where the sink cannot take them so, and [`Sink::matrix`] is to be called.
    fn steps(&mut self, _at: usize, _shape: [usize; 2], _steps: &dyn Steps) -> bool {
        false
    }
}

/// Cuts the gradients of units by a matrix of parameters to whole steps while they are in registers.
pub trait Steps: Sync {
    /// Columns of a strip.
    fn width(&self) -> usize;

    /// Rows of a strip's integers, at least those of the matrix.
    fn height(&self) -> usize;

    /// The most that a coordinate can be in steps; what is beyond counts as so many.
    fn most(&self) -> u32;

    /// Adds a unit's gradient of a strip, times a factor, cut toward zero, to integers `[height, width]`, or takes the same away
    /// again. Answers with the sum of the squares of the steps.
    fn add(&self, unit: usize, strip: usize, factor: f32, away: bool, sums: &mut [i32]) -> u128;
}

/// A range of parameters, and what is needed to tell each unit's gradient by them.
///
/// What it answers of a unit must be a function of that unit alone: operations whose shapes, order and operands depend on the
/// unit's own rows only, bit for bit unless [`Piece::is_repeatable`] says otherwise.
pub trait Piece: Send + Sync {
    /// How many parameters.
    fn parameters(&self) -> usize;

    /// The squared norm of each unit's gradient: an estimate in floating point; what is released is verified in integers.
    /// Not finite where the gradient is not.
    fn squared_norms(&self, layout: &Layout) -> Vec<f64>;

    /// Whether a unit's gradient comes out the same, bit for bit, each time it is asked for. Devices do not promise that: what
    /// they compute is copied once ([`crate::dp::clip`]).
    fn is_repeatable(&self) -> bool;

    /// Hands each unit's gradient to a sink; the first parameter is coordinate `at` of its part.
    fn stream(&self, layout: &Layout, at: usize, sink: &mut dyn Sink);

    /// Adds the sum of all units' gradients, unclipped, to `target`: for data that are public or opened by their owner.
    ///
    /// # Panics
    /// If the target has another length than the piece has parameters.
    fn add_to(&self, target: &mut [f32]);
}

/// The derivatives of a group by some named parts of the parameters.
#[derive(Default)]
pub struct Gradient {
    parts: Vec<(String, Vec<Box<dyn Piece>>)>,
}

impl Gradient {
    /// Of no parts yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part after the others.
    pub fn push(&mut self, name: impl Into<String>, pieces: Vec<Box<dyn Piece>>) {
        self.parts.push((name.into(), pieces));
    }

    /// Adds the parts of another after these.
    pub fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// Names and pieces, in the order of the parameters.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&str, &[Box<dyn Piece>])> + '_ {
        self.parts.iter().map(|(name, pieces)| (name.as_str(), pieces.as_slice()))
    }

    /// How many parameters each part has.
    pub fn lengths(&self) -> Vec<usize> {
        self.parts.iter().map(|(_, pieces)| length(pieces)).collect()
    }

    /// Adds the sum of all units' gradients, unclipped, to `target`: for data that are public or opened by their owner.
    ///
    /// # Panics
    /// If the target is not as long as all parts together.
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

/// Parameters of some pieces together.
pub(in crate::dp) fn length(pieces: &[Box<dyn Piece>]) -> usize {
    pieces.iter().map(|piece| piece.parameters()).sum()
}
