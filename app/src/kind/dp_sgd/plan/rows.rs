//! A plan's model of rows: the columns as JSON, as the spec states them, because a schema has up to 256 of them.

use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::job::dp_sgd::{AcousticModel, ModelParts, RowColumns, TextEmbedding};
use undertone_api::problem::Violation;
use undertone_api::table::{ColumnKind, TableSchema};

use super::TrainingPlan;

/// The most rows of a unit in a first plan.
const ROWS_PER_UNIT: u32 = 10;
/// The embedding of texts in a first plan: few parameters, because each has noise.
const TEXT: TextEmbedding = TextEmbedding { buckets: 1024, width: 16 };

/// Returns the columns of a first plan as JSON: the last boolean or category, or else the last number, is predicted from
/// all other columns. Empty for a dataset that is no table, or has no such column.
pub(super) fn first_rows(lead: &Dataset) -> String {
    let schema = lead.table.as_ref().filter(|_| lead.content == DatasetContent::Table);
    schema.and_then(choose_columns).map_or_else(String::new, |rows| write_rows(&rows))
}

/// Returns whether a dataset is a table with a column that a first plan predicts.
#[cfg(feature = "ssr")]
pub(in crate::kind) fn can_predict_rows(lead: &Dataset) -> bool {
    !first_rows(lead).is_empty()
}

fn choose_columns(schema: &TableSchema) -> Option<RowColumns> {
    let has_values = |kind: &ColumnKind| match kind {
        ColumnKind::Boolean => true,
        ColumnKind::Category { values } => values.len() > 1,
        ColumnKind::Integer { .. }
        | ColumnKind::Real { .. }
        | ColumnKind::Date { .. }
        | ColumnKind::Key { .. }
        | ColumnKind::Text { .. } => false,
    };
    let is_number = |kind: &ColumnKind| matches!(kind, ColumnKind::Integer { .. } | ColumnKind::Real { .. });
    let find_last =
        |is_target: &dyn Fn(&ColumnKind) -> bool| schema.columns.iter().rposition(|column| is_target(&column.kind));
    let target = find_last(&has_values).or_else(|| find_last(&is_number))?;
    let mut features = schema.columns.clone();
    let target = features.remove(target);
    let has_text = features.iter().any(|column| matches!(column.kind, ColumnKind::Text { .. }));
    let text = has_text.then_some(TEXT);
    Some(RowColumns { target, features, rows_per_unit: ROWS_PER_UNIT, text })
}

/// Writes columns as the form shows them.
pub(super) fn write_rows(rows: &RowColumns) -> String {
    serde_json::to_string_pretty(rows).unwrap_or_default()
}

impl TrainingPlan {
    /// Returns whether the plan trains a model of rows.
    pub fn is_of_rows(&self) -> bool {
        !self.rows.trim().is_empty()
    }

    /// Returns the parts of the model, of which the rounds can leave some untrained.
    pub fn model_parts(&self) -> ModelParts {
        self.model().unwrap_or_else(|_| self.layers.model(1)).parts()
    }

    /// Returns the model of the plan.
    ///
    /// # Errors
    /// When the columns are no JSON of columns.
    pub(super) fn model(&self) -> Result<AcousticModel, Violation> {
        if !self.is_of_rows() {
            return Ok(self.layers.model(self.hidden));
        }
        let rows: RowColumns = serde_json::from_str(&self.rows)
            .map_err(|error| Violation::new("spec.model.rows", format!("columns as JSON: {error}")))?;
        let model = AcousticModel::from_rows(rows, self.layers.layers, self.hidden);
        Ok(AcousticModel { normalize: self.layers.normalize && self.layers.layers > 0, ..model })
    }
}
