//! The columns of a model of rows. Its file names them, or for a graph also the spec of a job or the command.

use std::collections::HashSet;
use std::path::Path;

use undertone_api::job::dp_sgd::RowColumns;
use undertone_api::table::TableSchema;

use super::error::EvaluationError;
use crate::speech::model::Model;

/// Reads the columns in a file of JSON, which the command names.
///
/// # Errors
/// [`EvaluationError::File`] if the file cannot be read, and [`EvaluationError::ColumnsFormat`] if it holds no columns.
pub fn read_columns(path: &Path) -> Result<RowColumns, EvaluationError> {
    let file = |source| EvaluationError::File { path: path.to_owned(), source };
    parse_columns("--columns", &std::fs::read_to_string(path).map_err(file)?)
}

/// Parses columns that come from `origin`.
pub(super) fn parse_columns(origin: &'static str, text: &str) -> Result<RowColumns, EvaluationError> {
    serde_json::from_str(text).map_err(|source| EvaluationError::ColumnsFormat { origin, source })
}

/// Returns the columns of a graph: those that its file names, or else the `named` ones; `None` without either.
///
/// # Errors
/// [`EvaluationError::OtherNames`] if both are there and differ, and [`EvaluationError::InvalidColumns`] with the first field
/// that is out of its limits.
pub(super) fn select_columns(
    stored: Option<RowColumns>,
    named: Option<&RowColumns>,
) -> Result<Option<RowColumns>, EvaluationError> {
    check_named(stored.as_ref(), named)?;
    let Some(columns) = stored.or_else(|| named.cloned()) else { return Ok(None) };
    match columns.check_for_graph("columns", []).into_iter().next() {
        Some(violation) => Err(EvaluationError::InvalidColumns(violation)),
        None => Ok(Some(columns)),
    }
}

/// Checks that the named columns are those that the file of a model names itself, if both are there.
pub(super) fn check_named(stored: Option<&RowColumns>, named: Option<&RowColumns>) -> Result<(), EvaluationError> {
    match (stored, named) {
        (Some(stored), Some(named)) if stored != named => Err(EvaluationError::OtherNames),
        _ => Ok(()),
    }
}

/// Returns the columns that a model of rows reads.
pub(super) fn find_columns(model: &Model) -> Result<&RowColumns, EvaluationError> {
    let columns = model.usage().rows.as_deref().ok_or(EvaluationError::NoColumns)?;
    let shape = model.shape();
    let fits = columns.inputs() as usize == shape.inputs && columns.outputs() as usize == shape.classes;
    if fits && has_valid_columns(columns) { Ok(columns) } else { Err(EvaluationError::OtherColumns) }
}

/// Returns whether each column of a file is one that a table can declare.
fn has_valid_columns(columns: &RowColumns) -> bool {
    let all = columns.columns();
    let names: HashSet<&str> = all.iter().map(|column| column.name.as_str()).collect();
    let mut unit_column = "unit".to_owned();
    while names.contains(unit_column.as_str()) {
        unit_column.push('_');
    }
    !columns.features.is_empty() && TableSchema { unit_column, columns: all, encoder: None }.check("rows").is_empty()
}
