//! A classifier of rows: a graph whose output has the scores of one row of a table.

use rten_onnx::onnx::DataType;

use crate::error::{EncoderError, RowError};
use crate::graph::GraphInterface;
use crate::model::{EncoderModel, RowTensor};
use crate::scoring::{ExampleScores, ScoringGraph, try_examples};

/// An accepted graph with one input of 32-bit floats `[1, inputs]` and one output `[1, outputs]`; or `[1, 1, inputs]` and
/// `[1, 1, outputs]`, as `undertone-worker export` writes it.
///
/// A row passes alone, so its scores do not depend on other rows.
pub struct RowClassifier {
    model: EncoderModel,
    /// The dimensions of the input, 2 or 3.
    rank: usize,
    inputs: usize,
    outputs: usize,
}

/// Prints the dimensions alone.
impl std::fmt::Debug for RowClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { inputs, outputs, .. } = self;
        f.debug_struct("RowClassifier").field("inputs", inputs).field("outputs", outputs).finish_non_exhaustive()
    }
}

impl RowClassifier {
    /// Makes a checked graph ready to run on rows of `inputs` numbers.
    ///
    /// # Errors
    /// [`EncoderError`] with the input or output that is refused, and the remedy.
    pub fn open(graph: ScoringGraph, inputs: usize) -> Result<Self, EncoderError> {
        let ScoringGraph { content, interface } = graph;
        let rank = find_rank(&interface, inputs)?;
        let model = EncoderModel::load(content, &interface, None)?;
        let mut classifier = Self { model, rank, inputs, outputs: 0 };
        let wave = (0..inputs).map(|i| (i % 17) as f32 / 17.0 - 0.5).collect();
        let examples = [vec![0.5; inputs], wave];
        let outputs = try_examples(&|row| classifier.compute(row), &examples, EncoderError::RowClassifier)?;
        classifier.outputs = outputs;
        Ok(classifier)
    }

    /// Returns the numbers of a row.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the number of scores of a row.
    pub const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the scores of a row, `[outputs]`, for its numbers, `[inputs]`.
    ///
    /// # Errors
    /// [`RowError::Graph`] if the graph cannot be run, [`RowError::NotFinite`] for NaN or an infinite score.
    pub fn classify(&self, row: &[f32]) -> Result<Vec<f32>, RowError> {
        let (outputs, scores) = self.compute(row).map_err(|_| RowError::Graph)?;
        if outputs != self.outputs {
            return Err(RowError::Graph);
        }
        if scores.iter().all(|score| score.is_finite()) { Ok(scores) } else { Err(RowError::NotFinite) }
    }

    /// Returns the number of scores of a row, and the scores.
    fn compute(&self, row: &[f32]) -> Result<ExampleScores, String> {
        let mut dimensions = vec![1; self.rank];
        dimensions[self.rank - 1] = self.inputs;
        let output = self.model.run(&[RowTensor::Real(dimensions, row.to_vec())])?;
        let (rows, scores) = if self.rank == 2 {
            let ([rows, _], scores) = output.into_shape_vec::<f32, 2>().map_err(|error| {
                format!("its output is not `[batch, outputs]` ({error}): export it with the scores of each row")
            })?;
            (rows, scores)
        } else {
            let ([batch, rows, _], scores) = output.into_shape_vec::<f32, 3>().map_err(|error| {
                format!("its output is not `[batch, rows, outputs]` ({error}): export it with the scores of each row")
            })?;
            (batch * rows, scores)
        };
        if rows == 1 { Ok((scores.len(), scores)) } else { Err(format!("its output has {rows} rows for one")) }
    }
}

/// Returns the number of dimensions of the only input, whose last one is free or has `inputs` numbers.
fn find_rank(interface: &GraphInterface, inputs: usize) -> Result<usize, EncoderError> {
    let refuse = |problem: String| Err(EncoderError::RowClassifier(problem));
    let [input] = interface.inputs.as_slice() else {
        let own = interface.inputs.len();
        return refuse(format!(
            "it has {own} inputs, and a classifier of rows has one: join them to one row of numbers"
        ));
    };
    let (rank, numbers) = match input.dimensions.as_deref() {
        Some([_, numbers]) if input.element == Some(DataType::FLOAT) => (2, *numbers),
        Some([_, None | Some(1), numbers]) if input.element == Some(DataType::FLOAT) => (3, *numbers),
        _ => {
            return refuse(format!(
                "its input `{}` is not of 32-bit floats `[batch, inputs]`, or `[batch, rows, inputs]` with a free number of rows",
                input.name
            ));
        }
    };
    match numbers {
        Some(own) if usize::try_from(own) != Ok(inputs) => {
            refuse(format!("its input `{}` has {own} numbers for a row, and the columns give {inputs}", input.name))
        }
        _ => Ok(rank),
    }
}
