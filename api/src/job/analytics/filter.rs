//! Filters: which rows a query counts.
//!
//! A filter names columns and values ([`RowFilter`]); resolved against the columns of the spec it becomes ranges of
//! integer codes ([`CodeFilter`]). A comparison with a missing value is unknown, and a row counts when the filter is
//! true, as in SQL (ISO/IEC 9075-2, 8.1 and 8.12: three truth values).

use serde::{Deserialize, Serialize};

use super::resolve_error::ResolveError;
use crate::table::{CalendarDate, ColumnKind, MOST_CODE, TableColumn};

/// The most nodes of a filter.
pub const MOST_FILTER_NODES: usize = 256;
/// The deepest nesting of a filter.
pub const MOST_FILTER_DEPTH: usize = 16;
/// The most values of a list.
pub const MOST_LISTED_VALUES: usize = 1_000;

/// A value that a filter names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AnalyticsFilterValue))]
#[serde(untagged)]
pub enum FilterValue {
    /// A truth value.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// A declared category, or a date as `2026-01-31`.
    Text(String),
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AnalyticsComparison))]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// A condition on rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AnalyticsFilter))]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum RowFilter {
    /// A column compared with a value. Categories and booleans have no order: equal and not equal alone.
    Compare {
        /// The column.
        column: String,
        /// The comparison.
        comparison: Comparison,
        /// The value.
        value: FilterValue,
    },
    /// A column whose value is in a list.
    In {
        /// The column.
        column: String,
        /// The values: 1 to 1,000.
        values: Vec<FilterValue>,
    },
    /// A column whose value is in a range with both ends.
    Between {
        /// The column.
        column: String,
        /// The lower end.
        low: FilterValue,
        /// The upper end.
        high: FilterValue,
    },
    /// A column without a value.
    IsNull {
        /// The column.
        column: String,
    },
    /// Each of several conditions.
    And {
        /// The conditions, each of this form.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
        of: Vec<RowFilter>,
    },
    /// At least one of several conditions.
    Or {
        /// The conditions, each of this form.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
        of: Vec<RowFilter>,
    },
    /// The opposite of a condition.
    Not {
        /// The condition, of this form.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        of: Box<RowFilter>,
    },
}

/// Codes from `first` to `last`, both included; empty if `first` is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRange {
    /// The first code.
    pub first: i64,
    /// The last code.
    pub last: i64,
}

/// A filter on the codes of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeFilter {
    /// The code of a column is in one of the ranges; unknown if it is missing.
    Within {
        /// The position of the column among the columns of the spec.
        column: usize,
        /// The ranges.
        ranges: Vec<CodeRange>,
    },
    /// The code of a column is missing.
    IsNull {
        /// The position of the column.
        column: usize,
    },
    /// Each of several conditions.
    And(Vec<CodeFilter>),
    /// At least one of several conditions.
    Or(Vec<CodeFilter>),
    /// The opposite of a condition.
    Not(Box<CodeFilter>),
}

impl CodeFilter {
    /// Returns the truth value for a row of codes; `None` if it is unknown.
    pub fn evaluate(&self, row: &[Option<i64>]) -> Option<bool> {
        match self {
            Self::Within { column, ranges } => {
                let code = row.get(*column).copied().flatten()?;
                Some(ranges.iter().any(|range| (range.first..=range.last).contains(&code)))
            }
            Self::IsNull { column } => Some(row.get(*column).copied().flatten().is_none()),
            Self::And(parts) => combine(parts, row, false),
            Self::Or(parts) => combine(parts, row, true),
            Self::Not(part) => part.evaluate(row).map(|value| !value),
        }
    }
}

/// Returns `decisive` if a part has it; else unknown if a part is unknown; else the opposite.
fn combine(parts: &[CodeFilter], row: &[Option<i64>], decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for part in parts {
        match part.evaluate(row) {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

impl RowFilter {
    /// Returns the filter on codes.
    ///
    /// # Errors
    /// [`ResolveError`] for an unknown column, a value that does not fit its column, and a filter over the limits.
    pub fn resolve(&self, columns: &[TableColumn]) -> Result<CodeFilter, ResolveError> {
        let mut nodes = 0;
        self.resolve_node(columns, 1, &mut nodes)
    }

    fn resolve_node(
        &self,
        columns: &[TableColumn],
        depth: usize,
        nodes: &mut usize,
    ) -> Result<CodeFilter, ResolveError> {
        *nodes += 1;
        if depth > MOST_FILTER_DEPTH || *nodes > MOST_FILTER_NODES {
            return Err(ResolveError::FilterSize);
        }
        let mut resolve_all = |parts: &[Self]| -> Result<Vec<CodeFilter>, ResolveError> {
            parts.iter().map(|part| part.resolve_node(columns, depth + 1, nodes)).collect()
        };
        Ok(match self {
            Self::And { of } => CodeFilter::And(resolve_all(of)?),
            Self::Or { of } => CodeFilter::Or(resolve_all(of)?),
            Self::Not { of } => CodeFilter::Not(Box::new(of.resolve_node(columns, depth + 1, nodes)?)),
            Self::IsNull { column } => CodeFilter::IsNull { column: ResolveError::find(columns, column)?.0 },
            Self::Compare { column, comparison, value } => {
                let (place, kind) = ResolveError::find(columns, column)?;
                resolve_comparison(place, column, kind, *comparison, value)?
            }
            Self::In { column, values } => {
                let (place, kind) = ResolveError::find(columns, column)?;
                if !(1..=MOST_LISTED_VALUES).contains(&values.len()) {
                    return Err(ResolveError::FilterSize);
                }
                let codes = values.iter().map(|value| encode_value(column, kind, value));
                let ranges = codes.map(|code| code.map(|code| CodeRange { first: code, last: code }));
                CodeFilter::Within { column: place, ranges: ranges.collect::<Result<_, _>>()? }
            }
            Self::Between { column, low, high } => {
                let (place, kind) = ResolveError::find(columns, column)?;
                require_order(column, kind)?;
                let first = encode_value(column, kind, low)?;
                let last = encode_value(column, kind, high)?;
                CodeFilter::Within { column: place, ranges: vec![CodeRange { first, last }] }
            }
        })
    }
}

fn require_order(column: &str, kind: &ColumnKind) -> Result<(), ResolveError> {
    if matches!(kind, ColumnKind::Boolean | ColumnKind::Category { .. } | ColumnKind::Key { .. }) {
        return Err(ResolveError::Order { column: column.to_owned(), kind: kind.label() });
    }
    Ok(())
}

fn resolve_comparison(
    place: usize,
    column: &str,
    kind: &ColumnKind,
    comparison: Comparison,
    value: &FilterValue,
) -> Result<CodeFilter, ResolveError> {
    if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
        require_order(column, kind)?;
    }
    let code = encode_value(column, kind, value)?;
    let within = |first, last| CodeFilter::Within { column: place, ranges: vec![CodeRange { first, last }] };
    Ok(match comparison {
        Comparison::Equal => within(code, code),
        Comparison::NotEqual => CodeFilter::Not(Box::new(within(code, code))),
        Comparison::Less => within(i64::MIN, code.saturating_sub(1)),
        Comparison::AtMost => within(i64::MIN, code),
        Comparison::Greater => within(code.saturating_add(1), i64::MAX),
        Comparison::AtLeast => within(code, i64::MAX),
    })
}

/// Returns the code of a value. A value beyond the column's range is valid and keeps its place: no row reaches it.
fn encode_value(column: &str, kind: &ColumnKind, value: &FilterValue) -> Result<i64, ResolveError> {
    let code = match (kind, value) {
        (ColumnKind::Boolean, FilterValue::Boolean(value)) => Some(i64::from(*value)),
        (ColumnKind::Integer { .. }, FilterValue::Integer(value)) => Some(*value),
        (ColumnKind::Real { step, .. }, FilterValue::Integer(value)) => to_grid(*value as f64, *step),
        (ColumnKind::Real { step, .. }, FilterValue::Real(value)) => to_grid(*value, *step),
        (ColumnKind::Category { .. }, FilterValue::Text(text)) => kind.encode_category(text),
        (ColumnKind::Key { .. }, FilterValue::Text(text)) => kind.encode_key(text),
        (ColumnKind::Date { .. }, FilterValue::Text(text)) => CalendarDate::parse(text).ok().map(CalendarDate::days),
        _ => None,
    };
    code.ok_or_else(|| ResolveError::Value { column: column.to_owned(), expected: describe_values(kind) })
}

/// Returns the number of steps of a value on the grid of `step`; `None` beside the grid.
fn to_grid(value: f64, step: f64) -> Option<i64> {
    let steps = libm::round(value / step);
    let is_on_grid = (value / step - steps).abs() <= 1e-6 && steps.abs() <= MOST_CODE as f64;
    is_on_grid.then_some(steps as i64)
}

fn describe_values(kind: &ColumnKind) -> String {
    match kind {
        ColumnKind::Boolean => "true or false".to_owned(),
        ColumnKind::Integer { .. } => "an integer".to_owned(),
        ColumnKind::Real { step, .. } => format!("a multiple of {step}"),
        ColumnKind::Category { .. } => "a declared value".to_owned(),
        ColumnKind::Date { .. } => "a date as 2026-01-31".to_owned(),
        ColumnKind::Key { longest } => format!("a key of at most {longest} letters, digits or .-_/+:#"),
        ColumnKind::Text { .. } => "no value: texts have no statistics".to_owned(),
    }
}
