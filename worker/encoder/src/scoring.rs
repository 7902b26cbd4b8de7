//! Graphs that score examples, before it is known whether these are the frames of speech or the rows of a table.

use crate::error::EncoderError;
use crate::graph::{GraphInterface, GraphValue, MOST_GRAPH_BYTES, check_graph};

/// A checked graph: its operators are accepted, its weights are in the file, and its batch is free or 1.
pub struct ScoringGraph {
    pub(crate) content: Vec<u8>,
    pub(crate) interface: GraphInterface,
}

/// Prints the interface alone.
impl std::fmt::Debug for ScoringGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScoringGraph").field("interface", &self.interface).finish_non_exhaustive()
    }
}

impl ScoringGraph {
    /// Reads the content of an ONNX file, at most [`MOST_GRAPH_BYTES`](crate::MOST_GRAPH_BYTES).
    ///
    /// # Errors
    /// [`EncoderError`] with the node, tensor, input or output that is refused, and the remedy.
    pub fn read(content: &[u8]) -> Result<Self, EncoderError> {
        let length = content.len() as u64;
        if length > MOST_GRAPH_BYTES {
            return Err(EncoderError::TooLarge(length));
        }
        Ok(Self { interface: check_graph(content)?, content: content.to_vec() })
    }

    /// Returns an entry of the file's metadata (`metadata_props`).
    pub fn property(&self, name: &str) -> Option<&str> {
        self.interface.properties.get(name).map(String::as_str)
    }

    /// Returns whether an input is declared as `[batch, inputs]`, which has no dimension for the frames of speech.
    pub fn has_plain_rows(&self) -> bool {
        let is_plain = |input: &GraphValue| input.dimensions.as_ref().is_some_and(|sizes| sizes.len() == 2);
        self.interface.inputs.iter().any(is_plain)
    }
}

/// The number of scores of an example or of each of its frames, and all scores.
pub(crate) type ExampleScores = (usize, Vec<f32>);

/// Runs an example, another one, and the first again. Returns the number of classes that both have.
///
/// # Errors
/// [`EncoderError::Dependence`] if the scores of the first differ after the second, and that of `refuse` if the graph cannot
/// be run, or gives both another number of classes.
pub(crate) fn try_examples(
    compute: &dyn Fn(&[f32]) -> Result<ExampleScores, String>,
    [first, second]: &[Vec<f32>; 2],
    refuse: fn(String) -> EncoderError,
) -> Result<usize, EncoderError> {
    let (classes, before) = compute(first).map_err(refuse)?;
    let (other, _) = compute(second).map_err(refuse)?;
    let (_, after) = compute(first).map_err(refuse)?;
    if before.iter().map(|score| score.to_bits()).ne(after.iter().map(|score| score.to_bits())) {
        return Err(EncoderError::Dependence);
    }
    if classes == 0 || classes != other {
        return Err(refuse(format!("it has {classes} and {other} classes for two examples")));
    }
    Ok(classes)
}
