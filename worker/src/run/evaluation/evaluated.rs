//! The evaluated model: one of the product's own architectures, or an ONNX graph that scores the frames of speech or the rows
//! of tables.

use std::path::Path;

use undertone_api::job::dp_sgd::RowColumns;
use undertone_onnx::COLUMNS_PROPERTY;
use undertone_worker_encoder::{FrameClassifier, RowClassifier, ScoringGraph};

use super::columns::{check_named, find_columns, parse_columns, select_columns};
use super::error::EvaluationError;
use super::model_file::{check_dimensions, is_graph};
use crate::speech::dataset::Dataset;
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Example};
use crate::tables::dataset::read_meta;

/// An evaluated model.
pub(super) enum EvaluatedModel {
    /// A model of the product. The columns of a model of rows fit its layers.
    Own(Box<Model>),
    /// A graph of another program that scores frames.
    Frames(Box<FrameClassifier>),
    /// A graph of another program that scores rows.
    Rows(Box<RowGraph>),
}

/// A graph with the columns that it reads and predicts.
pub(super) struct RowGraph {
    classifier: RowClassifier,
    columns: RowColumns,
}

impl EvaluatedModel {
    /// Reads the content of a file: a graph, or a model by `read`. The columns of rows are those that the file names, or for
    /// a graph the `named` ones.
    ///
    /// # Errors
    /// [`EvaluationError::RefusedGraph`] with the node or the dimension that is refused, the errors of
    /// [`select_columns`] and of `read`, and [`EvaluationError::SpeechColumns`] for columns of a model of speech.
    pub(super) fn read(
        content: &[u8],
        named: Option<&RowColumns>,
        read: fn(&[u8]) -> Result<Model, EvaluationError>,
    ) -> Result<Self, EvaluationError> {
        if is_graph(content) {
            return Self::read_graph(content, named);
        }
        let model = read(content)?;
        if model.shape().dense {
            check_named(Some(find_columns(&model)?), named)?;
        } else if named.is_some() {
            return Err(EvaluationError::SpeechColumns);
        }
        Ok(Self::Own(Box::new(model)))
    }

    fn read_graph(content: &[u8], named: Option<&RowColumns>) -> Result<Self, EvaluationError> {
        let graph = ScoringGraph::read(content).map_err(EvaluationError::RefusedGraph)?;
        let stored = graph.property(COLUMNS_PROPERTY).map(|text| parse_columns(COLUMNS_PROPERTY, text)).transpose()?;
        let Some(columns) = select_columns(stored, named)? else {
            if graph.has_plain_rows() {
                return Err(EvaluationError::UnnamedColumns);
            }
            let classifier = FrameClassifier::open(graph).map_err(EvaluationError::RefusedGraph)?;
            return Ok(Self::Frames(Box::new(classifier)));
        };
        let classifier =
            RowClassifier::open(graph, columns.inputs() as usize).map_err(EvaluationError::RefusedGraph)?;
        let (outputs, expected) = (classifier.outputs(), columns.outputs() as usize);
        if outputs != expected {
            return Err(EvaluationError::Outputs { target: columns.target.name, outputs, expected });
        }
        Ok(Self::Rows(Box::new(RowGraph { classifier, columns })))
    }

    /// Returns the columns of a model of rows.
    pub(super) fn columns(&self) -> Option<&RowColumns> {
        match self {
            Self::Own(model) if model.shape().dense => model.usage().rows.as_deref(),
            Self::Rows(graph) => Some(&graph.columns),
            Self::Own(_) | Self::Frames(_) => None,
        }
    }

    /// Returns the numbers that it reads in a frame or a row.
    pub(super) fn inputs(&self) -> usize {
        match self {
            Self::Own(model) => model.shape().inputs,
            Self::Frames(graph) => graph.inputs(),
            Self::Rows(graph) => graph.classifier.inputs(),
        }
    }

    /// Returns the number of classes, or 1 for a model that predicts a number.
    pub(super) fn classes(&self) -> usize {
        match self {
            Self::Own(model) => model.shape().classes,
            Self::Frames(graph) => graph.classes(),
            Self::Rows(graph) => graph.classifier.outputs(),
        }
    }

    /// Opens a dataset of speech, and checks that the model fits it.
    ///
    /// # Errors
    /// [`EvaluationError::RowModel`] for a model of rows, [`EvaluationError::UnnamedColumns`] for a graph without columns on
    /// a table, [`EvaluationError::NoLabels`] for data without labels, and [`EvaluationError::Inputs`] or
    /// [`EvaluationError::Classes`] with both numbers.
    pub(super) fn open_dataset(&self, folder: &Path, name: &str) -> Result<Dataset, EvaluationError> {
        if self.columns().is_some() {
            return Err(EvaluationError::RowModel);
        }
        let dataset = Dataset::open(folder).map_err(|source| {
            // A graph of rows whose columns nothing names can have the form of a graph of frames.
            if matches!(self, Self::Frames(_)) && read_meta(folder).is_ok() {
                return EvaluationError::UnnamedColumns;
            }
            EvaluationError::NoLabels { dataset: name.to_owned(), source }
        })?;
        check_dimensions(&dataset, self.inputs(), self.classes())?;
        Ok(dataset)
    }

    /// Calls `visit` with the number of each example and its scores, `[frames, classes]` row-major. Each example passes
    /// alone, and each row of a graph of rows. An utterance or a row that a graph cannot score has the same score for each
    /// class: an error would be a fact of private content.
    pub(super) fn classify(&self, engine: &mut Engine, examples: &[Example<'_>], visit: &mut dyn FnMut(usize, &[f32])) {
        let labelled = examples.iter().enumerate().filter(|(_, example)| !example.labels.is_empty());
        match self {
            Self::Own(model) => engine.classify(model, examples, visit),
            Self::Frames(graph) => {
                for (number, example) in labelled {
                    let no_preference = |_| vec![0.0; example.labels.len() * graph.classes()];
                    visit(number, &graph.classify(example.features).unwrap_or_else(no_preference));
                }
            }
            Self::Rows(graph) => {
                let classifier = &graph.classifier;
                let no_preference = |_| vec![0.0; classifier.outputs()];
                let score = |row: &[f32]| classifier.classify(row).unwrap_or_else(no_preference);
                for (number, example) in labelled {
                    let rows = example.features.chunks_exact(classifier.inputs());
                    visit(number, &rows.flat_map(score).collect::<Vec<f32>>());
                }
            }
        }
    }
}
