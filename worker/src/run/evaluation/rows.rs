//! A model of rows at a site: its exact evaluation on a table, also of a graph, and its predictions for the rows of a file.
//!
//! The results are as private as the rows. They go to the site's terminal or to a file of the site, and no job and no message
//! contains them.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use undertone_api::job::dp_sgd::{RowColumns, TrainingLoss, level_value};
use undertone_api::table::TableSchema;

use super::error::EvaluationError;
use super::evaluated::EvaluatedModel;
use super::local::PRIVATE;
use super::model_file::{digest_file, is_graph, read_any_model};
use crate::dp::class_logits::ClassLogits;
use crate::speech::model::ModelError;
use crate::speech::model::gradient::{Engine, Example};
use crate::tables::dataset::TableReader;
use crate::tables::quarantine::RejectReason;
use crate::tables::rows::LabelledRows;
use crate::tables::source::{SourceOptions, SourceRow, SourceStep, open_source};
use crate::tables::value::ColumnEncoder;

/// The rows that pass through the model together.
const BATCH: usize = 4096;

/// The rows with one value of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueCounts {
    /// The value.
    pub value: String,
    /// The rows with this value.
    pub rows: u64,
    /// The rows with this value that the model predicts correctly.
    pub correct: u64,
    /// The rows for which the model predicts this value.
    pub predicted: u64,
}

/// The exact evaluation of a model of rows on a table of the site.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowEvaluation {
    /// [`PRIVATE`].
    pub private: &'static str,
    /// SHA-256 of the model's file, hex.
    pub model: String,
    /// The dataset.
    pub dataset: String,
    /// The predicted column.
    pub target: String,
    /// The units with evaluated rows.
    pub units: usize,
    /// The evaluated rows: those with a target.
    pub rows: usize,
    /// The share of correct rows; absent for a target that is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The root of the mean squared error, in the target's own unit; absent for a target with values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// The mean absolute error, in the target's own unit; absent for a target with values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_absolute_error: Option<f64>,
    /// The values of the target, in their declared order; empty for a number.
    pub values: Vec<ValueCounts>,
}

/// The counts of the rows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PredictionCounts {
    /// The rows with a prediction.
    pub predicted: u64,
    /// The rows that cannot be used.
    pub rejected: u64,
}

/// A model of rows, or an evaluated graph of rows, with the columns that it reads.
pub struct RowModel {
    digest: String,
    model: EvaluatedModel,
    columns: RowColumns,
    engine: Engine,
}

impl RowModel {
    /// Reads a model of rows of the product; `None` for a model of speech.
    ///
    /// # Errors
    /// [`EvaluationError`] if the file is no model, or its columns do not fit its layers; [`EvaluationError::Graph`] for an
    /// ONNX graph, because it gives no prediction for a row that it cannot score.
    pub fn read(path: &Path) -> Result<Option<Self>, EvaluationError> {
        let content = read_file(path)?;
        if is_graph(&content) { Err(EvaluationError::Graph) } else { Self::from_content(&content, None) }
    }

    /// Reads a model of rows, or a graph of rows for an evaluation; `None` for a model of speech. `named` are the columns of
    /// a graph whose file does not name them.
    ///
    /// # Errors
    /// [`EvaluationError`] if the file is no model, the graph is refused, or the columns do not fit.
    pub fn read_evaluated(path: &Path, named: Option<&RowColumns>) -> Result<Option<Self>, EvaluationError> {
        Self::from_content(&read_file(path)?, named)
    }

    fn from_content(content: &[u8], named: Option<&RowColumns>) -> Result<Option<Self>, EvaluationError> {
        let model = match EvaluatedModel::read(content, named, read_any_model) {
            Ok(model) => model,
            // Models of speech alone are personalized.
            Err(EvaluationError::Architecture(ModelError::Personal)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(columns) = model.columns().cloned() else { return Ok(None) };
        Ok(Some(Self { digest: digest_file(content), model, columns, engine: Engine::new() }))
    }

    /// Evaluates the model on the rows of a table that have a target.
    ///
    /// # Errors
    /// [`EvaluationError::Table`] if the table cannot be read, lacks a column or declares it otherwise than the model, and
    /// [`EvaluationError::NoTargets`] without rows.
    pub fn evaluate(&mut self, folder: &Path, name: &str) -> Result<RowEvaluation, EvaluationError> {
        let table = TableReader::open(folder)
            .map_err(|source| EvaluationError::NoTable { dataset: name.to_owned(), source })?;
        let rows = LabelledRows::read(&table, &self.columns, usize::MAX).map_err(EvaluationError::Table)?;
        if rows.units() == 0 {
            return Err(EvaluationError::NoTargets(name.to_owned()));
        }
        let mut sums = RowSums::new(&self.columns);
        let examples: Vec<Example<'_>> = (0..rows.units())
            .map(|unit| rows.unit(unit))
            .map(|(features, labels)| Example { features, labels })
            .collect();
        let outputs = self.model.classes();
        self.model.classify(&mut self.engine, &examples, &mut |number, scores| {
            for (scores, label) in scores.chunks_exact(outputs).zip(examples[number].labels) {
                sums.add(scores, *label);
            }
        });
        Ok(sums.finish(&self.columns, self.digest.clone(), name, &rows))
    }

    /// Writes a prediction for each row of `sources` to `out`, as CSV: the number of the row's line in its source, the
    /// prediction, the probability of a predicted value, and the reason why a row cannot be used.
    ///
    /// # Errors
    /// [`EvaluationError::Table`] if a source cannot be read, and [`EvaluationError::Output`] if `out` cannot be written.
    pub fn predict(
        &mut self,
        sources: &SourceOptions,
        out: &mut dyn Write,
    ) -> Result<PredictionCounts, EvaluationError> {
        let is_number = self.columns.loss() == TrainingLoss::SquaredError;
        let head = if is_number { "line,prediction,problem" } else { "line,prediction,probability,problem" };
        writeln!(out, "{head}").map_err(EvaluationError::Output)?;
        let encoders: Vec<ColumnEncoder> =
            self.columns.features.iter().map(|column| ColumnEncoder::new(&column.kind, None)).collect();
        let mut counts = PredictionCounts::default();
        for index in 0..sources.count() {
            // A file of rows to predict needs no column of units: the first feature stands in its place, unused.
            let unit_column = self.columns.features[0].name.clone();
            let schema = TableSchema { unit_column, columns: self.columns.features.clone(), encoder: None };
            let mut source = open_source(sources, index, &schema).map_err(EvaluationError::Table)?;
            let mut row = SourceRow::default();
            let mut batch = PredictionBatch::default();
            loop {
                let step = source.next_row(&mut row).map_err(EvaluationError::Table)?;
                let codes = match step {
                    SourceStep::End => break,
                    SourceStep::Rejected(reason) => Err(reason),
                    SourceStep::Row => encode_row(&encoders, &row),
                };
                match codes {
                    Ok(codes) => {
                        self.columns.encode_features(&codes, &mut batch.features);
                        batch.lines.push((source.line(), None));
                        counts.predicted += 1;
                    }
                    Err(reason) => {
                        batch.lines.push((source.line(), Some(reason.to_string())));
                        counts.rejected += 1;
                    }
                }
                if batch.lines.len() == BATCH {
                    self.write_batch(&mut batch, out)?;
                }
            }
            self.write_batch(&mut batch, out)?;
        }
        out.flush().map_err(EvaluationError::Output)?;
        Ok(counts)
    }

    fn write_batch(&mut self, batch: &mut PredictionBatch, out: &mut dyn Write) -> Result<(), EvaluationError> {
        let usable = batch.lines.iter().filter(|(_, problem)| problem.is_none()).count();
        let mut scores = Vec::new();
        if usable > 0 {
            let example = [Example { features: &batch.features, labels: &vec![0; usable] }];
            self.model.classify(&mut self.engine, &example, &mut |_, own| scores.extend_from_slice(own));
        }
        let is_number = self.columns.loss() == TrainingLoss::SquaredError;
        let mut predictions = scores.chunks_exact(self.model.classes());
        for (line, problem) in batch.lines.drain(..) {
            // Rows that cannot be used were not in the pass.
            let scores = if problem.is_none() { predictions.next() } else { None };
            let cells = match (problem, scores) {
                (None, Some([score])) if is_number => {
                    format!("{},", self.columns.decode_number(f64::from(*score)))
                }
                (None, Some(scores)) => {
                    let scores = ClassLogits::new(scores);
                    let value = self.columns.display_class(scores.best());
                    format!("{},{:.6},", quote_cell(&value), scores.confidence())
                }
                (problem, _) => {
                    let blanks = if is_number { "," } else { ",," };
                    format!("{blanks}{}", quote_cell(&problem.unwrap_or_default()))
                }
            };
            writeln!(out, "{line},{cells}").map_err(EvaluationError::Output)?;
        }
        batch.features.clear();
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, EvaluationError> {
    std::fs::read(path).map_err(|source| EvaluationError::File { path: path.to_owned(), source })
}

/// Returns the codes of a row's features.
fn encode_row(encoders: &[ColumnEncoder], row: &SourceRow) -> Result<Vec<Option<i64>>, RejectReason> {
    let mut codes = Vec::new();
    for (encoder, value) in encoders.iter().zip(&row.values) {
        encoder.encode_codes(value, &mut codes)?;
    }
    Ok(codes)
}

/// Rows between two passes.
#[derive(Debug, Default)]
struct PredictionBatch {
    /// The inputs of the usable rows.
    features: Vec<f32>,
    /// The line of each row, and the reason why it cannot be used.
    lines: Vec<(u64, Option<String>)>,
}

/// Quotes a cell of CSV if it needs it.
pub(super) fn quote_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Sums over evaluated rows.
enum RowSums {
    Values(Vec<ValueCounts>),
    /// The sums of the squared and of the absolute errors, in the target's unit.
    Number {
        squares: f64,
        distances: f64,
        half_range: f64,
    },
}

impl RowSums {
    fn new(columns: &RowColumns) -> Self {
        if columns.loss() == TrainingLoss::SquaredError {
            return Self::Number { squares: 0.0, distances: 0.0, half_range: columns.target_range() / 2.0 };
        }
        let counts = |class| ValueCounts { value: columns.display_class(class), rows: 0, correct: 0, predicted: 0 };
        Self::Values((0..columns.outputs() as usize).map(counts).collect())
    }

    fn add(&mut self, scores: &[f32], label: u16) {
        match self {
            Self::Values(values) => {
                let (label, predicted) = (usize::from(label), ClassLogits::new(scores).best());
                values[label].rows += 1;
                values[predicted].predicted += 1;
                values[label].correct += u64::from(label == predicted);
            }
            Self::Number { squares, distances, half_range } => {
                let prediction = f64::from(scores[0]).clamp(-1.0, 1.0);
                let distance = (prediction - f64::from(level_value(label))) * *half_range;
                *squares += distance * distance;
                *distances += distance.abs();
            }
        }
    }

    fn finish(self, columns: &RowColumns, model: String, dataset: &str, rows: &LabelledRows) -> RowEvaluation {
        let count = rows.rows() as f64;
        let mut evaluation = RowEvaluation {
            private: PRIVATE,
            model,
            dataset: dataset.to_owned(),
            target: columns.target.name.clone(),
            units: rows.units(),
            rows: rows.rows(),
            accuracy: None,
            rmse: None,
            mean_absolute_error: None,
            values: Vec::new(),
        };
        match self {
            Self::Values(values) => {
                let correct: u64 = values.iter().map(|value| value.correct).sum();
                evaluation.accuracy = Some(correct as f64 / count);
                evaluation.values = values;
            }
            Self::Number { squares, distances, .. } => {
                evaluation.rmse = Some((squares / count).sqrt());
                evaluation.mean_absolute_error = Some(distances / count);
            }
        }
        evaluation
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::{Path, PathBuf};

    use undertone_api::job::dp_sgd::{AcousticModel, RowColumns};
    use undertone_api::table::{ColumnKind, TableColumn};

    use super::{RowModel, quote_cell};
    use crate::run::evaluation::{EvaluationError, read_model};
    use crate::speech::model::{Model, ModelShape, ModelUsage, Normalizer};
    use crate::tables::source::SourceOptions;

    /// Returns a linear model that predicts `returns` if and only if the age is above 50, or the age itself.
    fn write_model(folder: &Path, target: ColumnKind) -> PathBuf {
        let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
        let columns = RowColumns {
            target: column("returns", target),
            features: vec![
                column("age", ColumnKind::Integer { least: 0, most: 100 }),
                column("ward", ColumnKind::Category { values: vec!["a".to_owned(), "b, c".to_owned()] }),
            ],
            rows_per_unit: 1,
            text: None,
        };
        let spec = AcousticModel::from_rows(columns.clone(), 0, 0);
        let outputs = columns.outputs() as usize;
        let plain = Normalizer { mean: vec![0.0; 3], deviation: vec![1.0; 3] };
        let mut model = Model::initialize(ModelShape::from_spec(&spec, 3, outputs), plain, 1);
        model.parameters_mut().fill(0.0);
        // The first input has the weight 1, or 10 for the second of two classes.
        model.parameters_mut()[outputs - 1] = if outputs == 1 { 1.0 } else { 10.0 };
        model.set_usage(ModelUsage { rows: Some(Box::new(columns)), ..ModelUsage::default() });
        let path = folder.join("model.safetensors");
        std::fs::write(&path, model.to_safetensors().unwrap()).unwrap();
        path
    }

    fn predict(folder: &Path, target: ColumnKind, rows: &str) -> (String, u64, u64) {
        let input = folder.join("rows.csv");
        std::fs::write(&input, rows).unwrap();
        let mut model = RowModel::read(&write_model(folder, target)).unwrap().unwrap();
        let mut out = Vec::new();
        let counts = model.predict(&SourceOptions::Files { paths: vec![input], format: None }, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), counts.predicted, counts.rejected)
    }

    #[test]
    fn each_row_has_a_prediction_or_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let rows = "ward,age,note\na,90,x\nb,abc,x\na,,x\nother,20,x\nshort\n";
        let (text, predicted, rejected) = predict(folder.path(), ColumnKind::Boolean, rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((predicted, rejected), (3, 2));
        assert_eq!(lines[0], "line,prediction,probability,problem");
        assert!(lines[1].starts_with("2,true,0.999") && lines[1].ends_with(','), "{text}");
        assert_eq!(lines[2], "3,,,with a value that is no integer of 64 bits");
        assert!(lines[3].starts_with("4,false,0.5"), "a missing age is the middle of its range: {text}");
        assert!(lines[4].starts_with("5,false,0.99") && lines[5].starts_with("6,,,with another number"), "{text}");
        let values = ColumnKind::Category { values: vec!["no".to_owned(), "yes, \"soon\"".to_owned()] };
        let (text, ..) = predict(folder.path(), values, "ward,age\na,90\n");
        assert!(text.contains("2,\"yes, \"\"soon\"\"\",0.9"), "{text}");
    }

    #[test]
    fn number_is_predicted_in_its_own_unit() {
        let folder = tempfile::tempdir().unwrap();
        let target = ColumnKind::Real { least: 10.0, most: 30.0, step: 0.5 };
        let (text, ..) = predict(folder.path(), target, "ward,age\na,75\nb,0\n");
        assert_eq!(text, "line,prediction,problem\n2,25,\n3,10,\n");
    }

    #[test]
    fn models_of_rows_and_of_speech_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = write_model(folder.path(), ColumnKind::Boolean);
        let content = std::fs::read(&path).unwrap();
        assert!(matches!(read_model(&content), Err(EvaluationError::RowModel)));
        let plain = Normalizer { mean: vec![0.0; 3], deviation: vec![1.0; 3] };
        let speech = Model::initialize(ModelShape::plain(3, 2, 4), plain, 1);
        std::fs::write(&path, speech.to_safetensors().unwrap()).unwrap();
        assert!(RowModel::read(&path).unwrap().is_none());
        std::fs::write(&path, speech.to_personal_file().unwrap()).unwrap();
        assert!(RowModel::read(&path).unwrap().is_none());
        let mut model = Model::from_safetensors(&content).unwrap();
        let mut columns = model.usage().rows.clone().unwrap();
        columns.features.pop();
        for rows in [Some(columns), None] {
            model.set_usage(ModelUsage { rows, ..ModelUsage::default() });
            std::fs::write(&path, model.to_safetensors().unwrap()).unwrap();
            let error = RowModel::read(&path).err().unwrap();
            assert!(matches!(error, EvaluationError::OtherColumns | EvaluationError::NoColumns), "{error}");
        }
        assert_eq!(quote_cell("plain"), "plain");
    }
}
