//! The SQL text of queries: the opposite of reading.

use crate::job::analytics::filter::{Comparison, FilterValue, RowFilter};
use crate::job::analytics::query::{AggregateMeasure, DatePeriod, GroupKey, TableQuery};

/// Returns a text from which [`super::parse_queries`] reads the same filters, keys and aggregates. The names, limits and
/// shares of queries, the levels of trees, and the ends of groups of dates have no place in it.
pub fn write_queries(queries: &[TableQuery], unit: &str) -> String {
    let statements: Vec<String> = queries.iter().map(|query| write_query(query, unit)).collect();
    statements.join(";\n")
}

fn write_query(query: &TableQuery, unit: &str) -> String {
    let site = query.by_site.then(|| "site()".to_owned());
    let keys: Vec<String> = site.into_iter().chain(query.group_by.iter().map(write_key)).collect();
    let aggregates = query.aggregates.iter().map(|one| write_measure(&one.measure, unit));
    let items: Vec<String> = keys.iter().cloned().chain(aggregates).collect();
    let filter = query.filter.as_ref().map(|filter| format!("\nWHERE {}", write_filter(filter))).unwrap_or_default();
    let groups = if keys.is_empty() { String::new() } else { format!("\nGROUP BY {}", keys.join(", ")) };
    let most = query.group_by.iter().filter_map(|key| match key {
        GroupKey::Selected { most, .. } => Some(*most),
        _ => None,
    });
    let limit = most.max().map(|most| format!("\nLIMIT {most}")).unwrap_or_default();
    format!("SELECT {}\nFROM rows{filter}{groups}{limit}", items.join(", "))
}

fn write_key(key: &GroupKey) -> String {
    match key {
        GroupKey::Values { column } | GroupKey::Selected { column, .. } => column.clone(),
        GroupKey::Ranges { column, edges } => format!("bucket({column}{})", write_numbers(edges)),
        GroupKey::Dates { column, every, .. } => {
            let word = match every {
                DatePeriod::Day => "day",
                DatePeriod::Week => "week",
                DatePeriod::Month => "month",
                DatePeriod::Quarter => "quarter",
                DatePeriod::Year => "year",
            };
            format!("date_trunc('{word}', {column})")
        }
    }
}

fn write_measure(measure: &AggregateMeasure, unit: &str) -> String {
    match measure {
        AggregateMeasure::Count { column } => format!("count({})", column.as_deref().unwrap_or("*")),
        AggregateMeasure::CountUnits => format!("count(DISTINCT {unit})"),
        AggregateMeasure::Sum { column } => format!("sum({column})"),
        AggregateMeasure::Mean { column } => format!("avg({column})"),
        AggregateMeasure::Variance { column } => format!("variance({column})"),
        AggregateMeasure::Histogram { column, edges } => format!("histogram({column}{})", write_numbers(edges)),
        AggregateMeasure::Quantiles { column, probabilities, .. } => {
            format!("quantiles({column}{})", write_numbers(probabilities))
        }
        AggregateMeasure::Survival { time, event, edges } => {
            format!("survival({time}, {event}{})", write_numbers(edges))
        }
        AggregateMeasure::Covariance { columns } => format!("covariance({})", columns.join(", ")),
        AggregateMeasure::LinearRegression { target, features } => {
            format!("linear_regression({target}, {})", features.join(", "))
        }
    }
}

fn write_numbers(numbers: &[f64]) -> String {
    numbers.iter().map(|number| format!(", {number}")).collect::<Vec<_>>().concat()
}

fn write_filter(filter: &RowFilter) -> String {
    let join = |parts: &[RowFilter], word: &str| -> String {
        let parts: Vec<String> = parts.iter().map(|part| format!("({})", write_filter(part))).collect();
        parts.join(word)
    };
    match filter {
        RowFilter::Compare { column, comparison, value } => {
            let sign = match comparison {
                Comparison::Equal => "=",
                Comparison::NotEqual => "<>",
                Comparison::Less => "<",
                Comparison::AtMost => "<=",
                Comparison::Greater => ">",
                Comparison::AtLeast => ">=",
            };
            format!("{column} {sign} {}", write_value(value))
        }
        RowFilter::In { column, values } => {
            let values: Vec<String> = values.iter().map(write_value).collect();
            format!("{column} IN ({})", values.join(", "))
        }
        RowFilter::Between { column, low, high } => {
            format!("{column} BETWEEN {} AND {}", write_value(low), write_value(high))
        }
        RowFilter::IsNull { column } => format!("{column} IS NULL"),
        RowFilter::And { of } => join(of, " AND "),
        RowFilter::Or { of } => join(of, " OR "),
        RowFilter::Not { of } => format!("NOT ({})", write_filter(of)),
    }
}

fn write_value(value: &FilterValue) -> String {
    match value {
        FilterValue::Boolean(value) => value.to_string(),
        FilterValue::Integer(value) => value.to_string(),
        FilterValue::Real(value) => format!("{value:?}"),
        FilterValue::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}
