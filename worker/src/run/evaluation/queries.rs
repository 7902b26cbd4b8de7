//! A classifier of queries at a site: its labels for the texts of a file.
//!
//! The labels are as private as the texts. They go to a file of the site, and no job and no message contains them.

use std::io::Write;
use std::path::Path;

use undertone_api::table::{ColumnKind, TableColumn, TableSchema};

use super::error::EvaluationError;
use super::rows::{PredictionCounts, quote_cell};
use crate::queries::classifier::{Classifier, ClassifierFileError};
use crate::tables::quarantine::RejectReason;
use crate::tables::source::{SourceOptions, SourceRow, SourceStep, open_source};
use crate::tables::value::SourceValue;

/// The texts that are classified together.
const BATCH: usize = 4096;

/// A classifier from a file of an `active_learning` job.
pub struct QueryClassifier(Classifier);

impl QueryClassifier {
    /// Reads a classifier; `None` for a file of another kind of model.
    ///
    /// # Errors
    /// [`EvaluationError`] if the file cannot be read, or is a damaged classifier.
    pub fn read(path: &Path) -> Result<Option<Self>, EvaluationError> {
        let content = std::fs::read(path).map_err(|source| EvaluationError::File { path: path.to_owned(), source })?;
        match Classifier::from_safetensors(&content) {
            Ok(classifier) => Ok(Some(Self(classifier))),
            // Another model, or no model at all: its own reader names the fault.
            Err(ClassifierFileError::Format(_) | ClassifierFileError::NoClassifier) => Ok(None),
            Err(error) => Err(EvaluationError::Classifier(error)),
        }
    }

    /// Writes a label for each text in `column` of `sources` to `out`, as CSV: the number of the row's line in its
    /// source, the label, its probability, and the reason why a row cannot be used.
    ///
    /// # Errors
    /// [`EvaluationError::Table`] if a source cannot be read or lacks the column, and [`EvaluationError::Output`] if `out`
    /// cannot be written.
    pub fn predict(
        &self,
        sources: &SourceOptions,
        column: &str,
        out: &mut dyn Write,
    ) -> Result<PredictionCounts, EvaluationError> {
        writeln!(out, "line,label,probability,problem").map_err(EvaluationError::Output)?;
        let kind = ColumnKind::Text { most_grams: 1, characters: false };
        let columns = vec![TableColumn { name: column.to_owned(), kind }];
        // A file of texts needs no column of units: the text stands in its place, unused.
        let schema = TableSchema { unit_column: column.to_owned(), columns, encoder: None };
        let mut counts = PredictionCounts::default();
        for index in 0..sources.count() {
            let mut source = open_source(sources, index, &schema).map_err(EvaluationError::Table)?;
            let mut row = SourceRow::default();
            let mut batch = Vec::new();
            loop {
                let text = match source.next_row(&mut row).map_err(EvaluationError::Table)? {
                    SourceStep::End => break,
                    SourceStep::Rejected(reason) => Err(reason.to_string()),
                    SourceStep::Row => take_text(&mut row),
                };
                match text {
                    Ok(_) => counts.predicted += 1,
                    Err(_) => counts.rejected += 1,
                }
                batch.push((source.line(), text));
                if batch.len() == BATCH {
                    self.write_batch(&mut batch, out)?;
                }
            }
            self.write_batch(&mut batch, out)?;
        }
        out.flush().map_err(EvaluationError::Output)?;
        Ok(counts)
    }

    fn write_batch(&self, batch: &mut Vec<TextOfLine>, out: &mut dyn Write) -> Result<(), EvaluationError> {
        let texts: Vec<&str> = batch.iter().filter_map(|(_, text)| text.as_deref().ok()).collect();
        let mut labels = self.0.classify_local(&texts).into_iter();
        for (line, text) in batch.drain(..) {
            // Rows that cannot be used were not in the pass.
            let label = if text.is_ok() { labels.next() } else { None };
            let cells = match (text, label) {
                (Err(reason), _) => format!(",,{}", quote_cell(&reason)),
                (Ok(_), Some(found)) => {
                    let name = self.0.labels().get(usize::from(found.label)).map_or("", String::as_str);
                    format!("{},{:.6},", quote_cell(name), found.probability)
                }
                (Ok(_), None) => ",,".to_owned(),
            };
            writeln!(out, "{line},{cells}").map_err(EvaluationError::Output)?;
        }
        Ok(())
    }
}

/// The number of a line, and its text or the reason why it has none.
type TextOfLine = (u64, Result<String, String>);

/// Takes the text of a row, or the reason why it has none.
fn take_text(row: &mut SourceRow) -> Result<String, String> {
    let text = match row.values.first_mut().map(std::mem::take) {
        Some(SourceValue::Text(text)) => text,
        Some(SourceValue::LongText) => return Err(RejectReason::LongText.to_string()),
        Some(SourceValue::Missing) | None => String::new(),
        Some(SourceValue::Boolean(value)) => value.to_string(),
        Some(SourceValue::Integer(value)) => value.to_string(),
        Some(SourceValue::Real(value)) => value.to_string(),
        Some(_) => return Err(RejectReason::Encoding.to_string()),
    };
    if text.trim().is_empty() { Err("without a text".to_owned()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::{Path, PathBuf};

    use super::QueryClassifier;
    use crate::queries::classifier::{Classifier, Settings};
    use crate::run::evaluation::EvaluationError;
    use crate::tables::source::SourceOptions;

    fn write_classifier(folder: &Path) -> (PathBuf, Classifier) {
        let labels = ["play, music".to_owned(), "weather".to_owned()];
        let classifier = Classifier::begin(&Settings::default(), &labels, 5).unwrap();
        let path = folder.join("classifier.safetensors");
        std::fs::write(&path, classifier.to_safetensors().unwrap()).unwrap();
        (path, classifier)
    }

    fn predict(folder: &Path, column: &str, rows: &str) -> Result<String, EvaluationError> {
        let input = folder.join("queries.csv");
        std::fs::write(&input, rows).unwrap();
        let classifier = QueryClassifier::read(&write_classifier(folder).0).unwrap().unwrap();
        let mut out = Vec::new();
        let counts =
            classifier.predict(&SourceOptions::Files { paths: vec![input], format: None }, column, &mut out)?;
        let text = String::from_utf8(out).unwrap();
        assert_eq!(counts.predicted + counts.rejected, text.lines().count() as u64 - 1);
        Ok(text)
    }

    #[test]
    fn each_text_has_its_label_or_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(2000);
        let text =
            predict(folder.path(), "query", &format!("id,query\n7,play some jazz\n8,{long}\n9,rain\n10,  \n")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let (_, classifier) = write_classifier(folder.path());
        assert_eq!((lines.len(), lines[0]), (5, "line,label,probability,problem"));
        assert_eq!(lines[2], "3,,,with a text that is too long");
        assert_eq!(lines[4], "5,,,without a text");
        for (line, number, query) in [(lines[1], 2, "play some jazz"), (lines[3], 4, "rain")] {
            let own = classifier.classify_local(&[query])[0];
            let label = ["\"play, music\"", "weather"][usize::from(own.label)];
            assert_eq!(line, format!("{number},{label},{:.6},", own.probability), "{text}");
        }
    }

    #[test]
    fn missing_column_and_other_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = predict(folder.path(), "text", "query\nrain\n").unwrap_err().to_string();
        assert!(error.contains("text"), "{error}");
        let path = folder.path().join("other");
        std::fs::write(&path, "no model").unwrap();
        assert!(QueryClassifier::read(&path).unwrap().is_none());
        let mut damaged = std::fs::read(write_classifier(folder.path()).0).unwrap();
        let end = damaged.len() - 4;
        damaged[end..].copy_from_slice(&f32::NAN.to_le_bytes());
        std::fs::write(&path, damaged).unwrap();
        let error = QueryClassifier::read(&path).err().unwrap().to_string();
        assert!(error.contains("not finite"), "{error}");
    }
}
