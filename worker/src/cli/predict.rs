//! `predict`: the predictions of a model for the rows of a file, or of a classifier for its queries, for the site's own
//! use.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::CommandFailure;
use crate::run::evaluation::EvaluationError;
use crate::run::evaluation::queries::QueryClassifier;
use crate::run::evaluation::rows::RowModel;
use crate::tables::source::SourceOptions;

/// Predict a column of the rows of files with a model of rows, or the labels of queries with a classifier.
///
/// The files have a header with the columns that the model reads, or with the column of the queries; other columns, such as
/// the predicted one, are ignored. The output is CSV with the line of each row, the prediction and, for a column with values
/// and for labels, its probability. Rows that cannot be used have a reason instead. The predictions are as private as the
/// rows: the command writes them to a file of this machine, and sends nothing.
#[derive(Debug, Args)]
pub(super) struct PredictCommand {
    /// The model: a safetensors file of a job on tables, or the classifier of an `active_learning` job.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Files of rows: CSV, TSV or Parquet, by their endings.
    #[arg(value_name = "FILE", required = true)]
    input: Vec<PathBuf>,
    /// The column with the queries that a classifier labels.
    #[arg(long, value_name = "COLUMN", default_value = "query")]
    column: String,
    /// The CSV file to write.
    #[arg(long, value_name = "FILE", default_value = "predictions.csv")]
    output: PathBuf,
}

impl PredictCommand {
    /// Writes the predictions, and prints their number to `out`.
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let mut model = match QueryClassifier::read(&self.model)? {
            Some(classifier) => PredictionModel::Queries(Box::new(classifier)),
            None => PredictionModel::Rows(Box::new(RowModel::read(&self.model)?.ok_or(EvaluationError::SpeechModel)?)),
        };
        let mut read = self.input.iter().chain([&self.model]);
        if let Some(input) = read.find(|input| is_same_file(input, &self.output)) {
            return Err(EvaluationError::OutputIsInput(input.clone()).into());
        }
        let sources = SourceOptions::Files { paths: self.input.clone(), format: None };
        let file =
            File::create(&self.output).map_err(|source| EvaluationError::File { path: self.output.clone(), source })?;
        let mut writer = BufWriter::new(file);
        let counts = match &mut model {
            PredictionModel::Queries(classifier) => classifier.predict(&sources, &self.column, &mut writer)?,
            PredictionModel::Rows(model) => model.predict(&sources, &mut writer)?,
        };
        writeln!(
            out,
            "{} rows predicted, {} not usable: {}",
            counts.predicted,
            counts.rejected,
            self.output.display()
        )?;
        Ok(())
    }
}

/// Returns whether both paths lead to one existing file, also through symbolic links.
fn is_same_file(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// A model of either kind.
enum PredictionModel {
    Queries(Box<QueryClassifier>),
    Rows(Box<RowModel>),
}
