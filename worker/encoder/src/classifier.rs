//! A classifier of frames: a graph whose output has the scores of each frame of one utterance.

use rten_onnx::onnx::DataType;

use crate::error::{EncoderError, RowError};
use crate::graph::GraphInterface;
use crate::model::{EncoderModel, RowTensor};
use crate::scoring::{ExampleScores, ScoringGraph, try_examples};

/// The frames of the examples on which a graph is tried.
const EXAMPLE_FRAMES: [usize; 2] = [3, 5];

/// An accepted graph with one input of 32-bit floats `[1, frames, coefficients]` and one output `[1, frames, classes]`.
///
/// An utterance passes alone, so its scores do not depend on other utterances.
pub struct FrameClassifier {
    model: EncoderModel,
    inputs: usize,
    classes: usize,
}

/// Prints the dimensions alone.
impl std::fmt::Debug for FrameClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { inputs, classes, .. } = self;
        f.debug_struct("FrameClassifier").field("inputs", inputs).field("classes", classes).finish_non_exhaustive()
    }
}

impl FrameClassifier {
    /// Makes a checked graph ready to run.
    ///
    /// # Errors
    /// [`EncoderError`] with the input or output that is refused, and the remedy.
    pub fn open(graph: ScoringGraph) -> Result<Self, EncoderError> {
        let ScoringGraph { content, interface } = graph;
        let inputs = find_inputs(&interface)?;
        let model = EncoderModel::load(content, &interface, None)?;
        let mut classifier = Self { model, inputs, classes: 0 };
        let value = |i: usize| (i % 17) as f32 / 17.0 - 0.5;
        let examples = EXAMPLE_FRAMES.map(|frames| (0..frames * inputs).map(value).collect::<Vec<f32>>());
        let classes = try_examples(&|features| classifier.compute(features), &examples, EncoderError::Classifier)?;
        classifier.classes = classes;
        Ok(classifier)
    }

    /// Returns the coefficients of a frame.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the number of classes.
    pub const fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the scores of an utterance, `[frames, classes]` row-major, for its features, `[frames, coefficients]`.
    ///
    /// # Errors
    /// [`RowError::Graph`] if the graph cannot be run, [`RowError::NotFinite`] for NaN or an infinite score.
    pub fn classify(&self, features: &[f32]) -> Result<Vec<f32>, RowError> {
        let (classes, scores) = self.compute(features).map_err(|_| RowError::Graph)?;
        if classes != self.classes {
            return Err(RowError::Graph);
        }
        if scores.iter().all(|score| score.is_finite()) { Ok(scores) } else { Err(RowError::NotFinite) }
    }

    /// Returns the number of classes and the scores.
    fn compute(&self, features: &[f32]) -> Result<ExampleScores, String> {
        let frames = features.len() / self.inputs;
        let input = RowTensor::Real(vec![1, frames, self.inputs], features.to_vec());
        let (shape, scores) = self.model.run(&[input])?.into_shape_vec::<f32, 3>().map_err(|error| {
            format!("its output is not `[1, frames, classes]` ({error}): export it with a score of each frame")
        })?;
        let [rows, own, classes] = shape;
        if rows != 1 || own != frames {
            return Err(format!("its output has {rows} rows of {own} frames for one of {frames}"));
        }
        Ok((classes, scores))
    }
}

/// Returns the coefficients of a frame that the only input declares.
fn find_inputs(interface: &GraphInterface) -> Result<usize, EncoderError> {
    let [input] = interface.inputs.as_slice() else {
        let inputs = interface.inputs.len();
        return Err(EncoderError::Classifier(format!("it has {inputs} inputs, and a classifier of frames has one")));
    };
    let coefficients = match input.dimensions.as_deref() {
        Some([_, None, Some(coefficients)]) if input.element == Some(DataType::FLOAT) => {
            usize::try_from(*coefficients).ok()
        }
        _ => None,
    };
    coefficients.ok_or_else(|| {
        EncoderError::Classifier(format!(
            "its input `{}` is not of 32-bit floats `[batch, frames, coefficients]` with a free number of frames and a fixed \
             number of coefficients",
            input.name
        ))
    })
}
