//! Templates of queries: the SQL text of a common question, written for the declared columns of a table.

use undertone_api::table::{ColumnKind, TableColumn, TableSchema};

/// The most columns in a template.
const MOST_COLUMNS: usize = 12;
/// The bins of a column of numbers in a comparison of sites.
const DRIFT_PARTS: u64 = 8;
/// The key of a statement that each site answers on its own.
pub(super) const SITE: &str = "site()";
/// The most groups of the template of keys.
const FREQUENT: u32 = 50;
/// The periods beyond which a cohort has longer ones.
const MOST_PERIODS: i64 = 40;

/// Returns the title and the SQL text of each template for a table. A table without dates has no cohort over time, and one
/// without keys no most frequent codes.
pub(super) fn list_templates(schema: &TableSchema) -> Vec<(&'static str, String)> {
    let mut templates = vec![("Feasibility count", write_feasibility(schema)), ("Table One", write_table_one(schema))];
    templates.extend(write_drift(schema).map(|sql| ("Drift between sites", sql)));
    templates.extend(write_cohort(schema).map(|sql| ("Cohort over time", sql)));
    templates.extend(write_frequent(schema).map(|sql| ("Most frequent codes", sql)));
    templates
}

/// Counts the units of each period of the first column of dates, with the mean of the first column of numbers. The period
/// is the shortest of which the declared range has few.
fn write_cohort(schema: &TableSchema) -> Option<String> {
    let (date, first, last) = schema.columns.iter().find_map(|column| match column.kind {
        ColumnKind::Date { first, last } => Some((&column.name, first, last)),
        _ => None,
    })?;
    let days = last.days() - first.days();
    let period = if days < 31 * MOST_PERIODS {
        "month"
    } else if days < 92 * MOST_PERIODS {
        "quarter"
    } else {
        "year"
    };
    let number = schema
        .columns
        .iter()
        .find(|column| matches!(column.kind, ColumnKind::Integer { .. } | ColumnKind::Real { .. }))
        .map(|column| format!(", avg({})", column.name))
        .unwrap_or_default();
    let key = format!("date_trunc('{period}', {date})");
    Some(format!("SELECT {key}, count(DISTINCT {}){number}\nFROM rows\nGROUP BY {key}", schema.unit_column))
}

/// Counts the units with each of the most frequent keys of the first column of keys.
fn write_frequent(schema: &TableSchema) -> Option<String> {
    let key = schema.columns.iter().find(|column| matches!(column.kind, ColumnKind::Key { .. }))?;
    let (name, unit) = (&key.name, &schema.unit_column);
    Some(format!("SELECT {name}, count(DISTINCT {unit})\nFROM rows\nGROUP BY {name}\nLIMIT {FREQUENT}"))
}

/// Compares the histograms of the sites: of each column of categories or booleans, and of each column of numbers in equal
/// parts of its declared range. A table of dates alone has none.
fn write_drift(schema: &TableSchema) -> Option<String> {
    let histogram = |column: &TableColumn| match column.kind {
        ColumnKind::Boolean | ColumnKind::Category { .. } => Some(format!("histogram({})", column.name)),
        ColumnKind::Integer { least, most } => {
            let parts = DRIFT_PARTS.min(most.abs_diff(least).max(1));
            let width = most.abs_diff(least) / parts;
            let edge = |part: u64| if part == parts { most } else { least.saturating_add_unsigned(part * width) };
            let edges: Vec<String> = (0..=parts).map(|part| edge(part).to_string()).collect();
            Some(format!("histogram({}, {})", column.name, edges.join(", ")))
        }
        ColumnKind::Real { least, most, .. } => {
            let edge = |part: u64| least + (most - least) * part as f64 / DRIFT_PARTS as f64;
            let edges: Vec<String> = (0..=DRIFT_PARTS).map(|part| edge(part).to_string()).collect();
            Some(format!("histogram({}, {})", column.name, edges.join(", ")))
        }
        ColumnKind::Date { .. } | ColumnKind::Key { .. } | ColumnKind::Text { .. } => None,
    };
    let items: Vec<String> = schema.columns.iter().filter_map(histogram).take(MOST_COLUMNS).collect();
    (!items.is_empty()).then(|| format!("SELECT {}\nFROM rows\nGROUP BY {SITE}", items.join(", ")))
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
            ColumnKind::Key { .. } | ColumnKind::Text { .. } => {}
        }
    }
    format!("SELECT {}\nFROM rows", items.join(", "))
}
