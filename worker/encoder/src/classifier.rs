//! A classifier of frames: a graph whose output has the scores of each frame of one utterance.

use rten_onnx::onnx::DataType;

use crate::error::{EncoderError, RowError};
use crate::graph::{GraphInterface, check_graph};
use crate::model::{EncoderModel, RowTensor};

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
    /// Reads the content of an ONNX file.
    ///
    /// # Errors
    /// [`EncoderError`] with the node, tensor, input or output that is refused, and the remedy.
    pub fn read(content: &[u8]) -> Result<Self, EncoderError> {
        let interface = check_graph(content)?;
        let inputs = find_inputs(&interface)?;
        let model = EncoderModel::load(content.to_vec(), &interface, None)?;
        let mut classifier = Self { model, inputs, classes: 0 };
        let value = |i: usize| (i % 17) as f32 / 17.0 - 0.5;
        let [first, second] = EXAMPLE_FRAMES.map(|frames| (0..frames * inputs).map(value).collect::<Vec<f32>>());
        let before = classifier.compute(&first).map_err(EncoderError::Classifier)?;
        let other = classifier.compute(&second).map_err(EncoderError::Classifier)?;
        let after = classifier.compute(&first).map_err(EncoderError::Classifier)?;
        if before.1.iter().map(|score| score.to_bits()).ne(after.1.iter().map(|score| score.to_bits())) {
            return Err(EncoderError::Dependence);
        }
        if before.0 == 0 || before.0 != other.0 {
            let problem = format!("it has {} and {} classes for two utterances", before.0, other.0);
            return Err(EncoderError::Classifier(problem));
        }
        classifier.classes = before.0;
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
    fn compute(&self, features: &[f32]) -> Result<(usize, Vec<f32>), String> {
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
