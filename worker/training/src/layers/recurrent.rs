//! Stacked recurrent layers, in one direction or both.

pub mod gru;
pub mod lstm;

use super::Layer;
use super::combine::{ConcatenatedLayers, ReversedLayer};
use super::stack::{Stack, StackError};

/// Returns a stack of recurrent layers with parts `0`, `1`, …, where each layer reads the output of the previous one.
///
/// `cell` returns a layer for a given number of inputs. With `bidirectional`, each layer reads every sequence in both
/// directions, and the outputs of both directions are concatenated.
///
/// # Errors
/// [`StackError`] if the layer has another number of inputs than `cell` received.
///
/// # Panics
/// If `layers` is 0.
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
            (None, false) => Stack::with_layer(name, cell(width)),
            (None, true) => Stack::with_layer(name, ConcatenatedLayers(cell(width), ReversedLayer(cell(width)))),
            (Some(below), false) => below.then(name, cell(width))?,
            (Some(below), true) => below.then(name, ConcatenatedLayers(cell(width), ReversedLayer(cell(width))))?,
        });
    }
    Ok(stack.expect("at least one layer"))
}
