//! Templates of queries: the SQL text of a common question, written for the declared columns of a table.

use undertone_api::table::{ColumnKind, TableSchema};

/// The most columns in a template.
const MOST_COLUMNS: usize = 12;

/// Returns the title and the SQL text of each template for a table.
pub(super) fn list_templates(schema: &TableSchema) -> Vec<(&'static str, String)> {
    vec![("Feasibility count", write_feasibility(schema)), ("Table One", write_table_one(schema))]
}

/// Counts the units in all, and by the first column of categories or booleans.
fn write_feasibility(schema: &TableSchema) -> String {
    let unit = &schema.unit_column;
    let is_key = |kind: &ColumnKind| matches!(kind, ColumnKind::Boolean | ColumnKind::Category { .. });
    let key = schema.columns.iter().find(|column| is_key(&column.kind));
    let by_key = key.map(|column| {
        let name = &column.name;
        format!(";\nSELECT {name}, count(DISTINCT {unit}) FROM rows GROUP BY {name}")
    });
    format!("SELECT count(DISTINCT {unit}) FROM rows{}", by_key.unwrap_or_default())
}

/// Describes the population: the number of units, mean and deviation of numbers, counts of categories.
fn write_table_one(schema: &TableSchema) -> String {
    let mut items = vec![format!("count(DISTINCT {})", schema.unit_column)];
    for column in schema.columns.iter().take(MOST_COLUMNS) {
        let name = &column.name;
        match column.kind {
            ColumnKind::Integer { .. } | ColumnKind::Real { .. } => items.push(format!("variance({name})")),
            ColumnKind::Boolean | ColumnKind::Category { .. } => items.push(format!("histogram({name})")),
            ColumnKind::Date { .. } => items.push(format!("median({name})")),
        }
    }
    format!("SELECT {}\nFROM rows", items.join(", "))
}
