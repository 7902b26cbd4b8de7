//! Layers with a memory, one over the other, in one direction or both.

pub mod gru;
pub mod lstm;

use super::Layer;
use super::combine::{Beside, Reversed};
use super::stack::{Stack, StackError};

/// Layers of a cell over each other, each reading what the one below gives, as one stack with parts `0`, `1`, ….
///
/// `cell` makes a layer of so many inputs. With `bidirectional`, each layer reads every sequence in both directions, and the
/// outputs of both stand side by side.
///
/// # Errors
/// [`StackError`] when the cell does not take what it was made for.
///
/// # Panics
/// If there are no layers.
pub fn layers<L: Layer>(
    cell: impl Fn(usize) -> L,
    inputs: usize,
    layers: usize,
    bidirectional: bool,
) -> Result<Stack, StackError> {
    assert!(layers > 0, "at least one layer");
    let mut stack: Option<Stack> = None;
    for index in 0..layers {
        let (name, width) = (index.to_string(), stack.as_ref().map_or(inputs, Layer::outputs));
        stack = Some(match (stack, bidirectional) {
            (None, false) => Stack::of(name, cell(width)),
            (None, true) => Stack::of(name, Beside(cell(width), Reversed(cell(width)))),
            (Some(below), false) => below.then(name, cell(width))?,
            (Some(below), true) => below.then(name, Beside(cell(width), Reversed(cell(width))))?,
        });
    }
    Ok(stack.expect("at least one layer"))
}
