//! The evaluated model: one of the product's own architectures, or an ONNX graph that scores the frames of speech.

use undertone_api::job::dp_sgd::RowColumns;
use undertone_worker_encoder::FrameClassifier;

use super::error::EvaluationError;
use super::model_file::{check_dimensions, is_graph};
use crate::speech::dataset::Dataset;
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Example};

/// An evaluated model.
pub(super) enum EvaluatedModel {
    /// A model of the product.
    Own(Box<Model>),
    /// A graph of another program.
    Graph(Box<FrameClassifier>),
}

impl EvaluatedModel {
    /// Reads the content of a file: a graph, or a model by `read`.
    ///
    /// # Errors
    /// [`EvaluationError::RefusedGraph`] with the node or the dimension that is refused, and the errors of `read`.
    pub(super) fn read(
        content: &[u8],
        read: fn(&[u8]) -> Result<Model, EvaluationError>,
    ) -> Result<Self, EvaluationError> {
        if is_graph(content) {
            let graph = FrameClassifier::read(content).map_err(EvaluationError::RefusedGraph)?;
            return Ok(Self::Graph(Box::new(graph)));
        }
        Ok(Self::Own(Box::new(read(content)?)))
    }

    /// Returns the model of rows, if it is one.
    pub(super) fn row_model(&self) -> Option<&Model> {
        match self {
            Self::Own(model) if model.shape().dense => Some(model),
            _ => None,
        }
    }

    /// Returns the columns that it reads, if its file names them.
    pub(super) fn columns(&self) -> Option<&RowColumns> {
        match self {
            Self::Own(model) => model.usage().rows.as_deref(),
            Self::Graph(_) => None,
        }
    }

    /// Returns the numbers that it reads in a frame or a row.
    pub(super) fn inputs(&self) -> usize {
        match self {
            Self::Own(model) => model.shape().inputs,
            Self::Graph(graph) => graph.inputs(),
        }
    }

    /// Returns the number of classes.
    pub(super) fn classes(&self) -> usize {
        match self {
            Self::Own(model) => model.shape().classes,
            Self::Graph(graph) => graph.classes(),
        }
    }

    /// Checks that it fits a dataset of speech.
    ///
    /// # Errors
    /// [`EvaluationError::Inputs`] or [`EvaluationError::Classes`] with both numbers.
    pub(super) fn check_dataset(&self, dataset: &Dataset) -> Result<(), EvaluationError> {
        check_dimensions(dataset, self.inputs(), self.classes())
    }

    /// Calls `visit` with the number of each example and its scores, `[frames, classes]` row-major. Each example passes
    /// alone. An utterance that a graph cannot score has the same score for each class: an error would be a fact of private
    /// content.
    pub(super) fn classify(&self, engine: &mut Engine, examples: &[Example<'_>], visit: &mut dyn FnMut(usize, &[f32])) {
        match self {
            Self::Own(model) => engine.classify(model, examples, visit),
            Self::Graph(graph) => {
                for (number, example) in examples.iter().enumerate().filter(|(_, example)| !example.labels.is_empty()) {
                    let no_preference = |_| vec![0.0; example.labels.len() * graph.classes()];
                    visit(number, &graph.classify(example.features).unwrap_or_else(no_preference));
                }
            }
        }
    }
}
