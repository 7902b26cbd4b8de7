//! Columns, values, aggregates and keys.

use sqlparser::ast::{
    DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause,
    UnaryOperator, Value,
};

use super::{SqlError, StatementReader};
use crate::job::analytics::filter::FilterValue;
use crate::job::analytics::query::{AggregateMeasure, DatePeriod, GroupKey};
use crate::table::{ColumnKind, TableSchema};

/// The levels of the trees of quantiles.
const LEVELS: u32 = 8;
/// The most groups of a column of keys, without a `LIMIT`.
const SELECTED: u32 = 100;

/// Returns the name of a column: in lower case, unless it is quoted.
pub(super) fn column_name(expression: &Expr) -> Result<String, SqlError> {
    let fold = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    };
    match expression {
        Expr::Identifier(ident) => Ok(fold(ident)),
        // A name with its table: `visits.age`.
        Expr::CompoundIdentifier(parts) if parts.len() == 2 => Ok(fold(&parts[1])),
        Expr::Nested(inner) => column_name(inner),
        other => Err(SqlError::clause(other.to_string(), "name a column: prepare expressions when the table is added")),
    }
}

/// Returns a value: a number, a text, a truth value or a date.
pub(super) fn read_value(expression: &Expr) -> Result<FilterValue, SqlError> {
    let unknown =
        || SqlError::clause(expression.to_string(), "write a number, 'text', true, false, or DATE '2026-01-31'");
    match expression {
        Expr::Nested(inner) => read_value(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match read_value(expr)? {
            FilterValue::Integer(value) => Ok(FilterValue::Integer(-value)),
            FilterValue::Real(value) => Ok(FilterValue::Real(-value)),
            _ => Err(unknown()),
        },
        Expr::TypedString(typed) if typed.data_type == DataType::Date => match &typed.value.value {
            Value::SingleQuotedString(text) => Ok(FilterValue::Text(text.clone())),
            _ => Err(unknown()),
        },
        Expr::Value(value) => match &value.value {
            Value::Boolean(value) => Ok(FilterValue::Boolean(*value)),
            Value::SingleQuotedString(text) => Ok(FilterValue::Text(text.clone())),
            Value::Number(digits, _) => read_number(digits).ok_or_else(unknown),
            Value::Null => Err(SqlError::clause("NULL as a value", "use IS NULL")),
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    }
}

fn read_number(digits: &str) -> Option<FilterValue> {
    if let Ok(value) = digits.parse() {
        return Some(FilterValue::Integer(value));
    }
    digits.parse().ok().filter(|value: &f64| value.is_finite()).map(FilterValue::Real)
}

fn read_real(expression: &Expr) -> Result<f64, SqlError> {
    match read_value(expression)? {
        FilterValue::Integer(value) => Ok(value as f64),
        FilterValue::Real(value) => Ok(value),
        _ => Err(SqlError::clause(expression.to_string(), "write a number")),
    }
}

/// The name and the arguments of a function.
struct Call<'a> {
    name: String,
    is_distinct: bool,
    /// `None` for `*`.
    arguments: Option<Vec<&'a Expr>>,
}

fn read_call(function: &Function) -> Result<Call<'_>, SqlError> {
    let name = function.name.to_string().to_ascii_lowercase();
    super::refuse(&[
        (function.over.is_some(), "OVER", "use GROUP BY"),
        (function.filter.is_some(), "FILTER", "write a second statement with the condition in WHERE"),
        (!function.within_group.is_empty(), "WITHIN GROUP", "write quantiles(column, 0.5)"),
        (function.null_treatment.is_some(), "IGNORE NULLS", "missing values never count: remove it"),
        (function.uses_odbc_syntax, "{fn}", "write the function alone"),
        (
            !matches!(function.parameters, FunctionArguments::None),
            "parameters in parentheses",
            "write them as arguments",
        ),
    ])?;
    let FunctionArguments::List(list) = &function.args else {
        return Err(SqlError::clause(name, "write the aggregate's column in parentheses"));
    };
    if !list.clauses.is_empty() {
        return Err(SqlError::clause("a clause within the arguments", "write columns and numbers"));
    }
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let mut arguments = Vec::new();
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => arguments.push(expression),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if list.args.len() == 1 => {
                return Ok(Call { name, is_distinct, arguments: None });
            }
            other => return Err(SqlError::clause(other.to_string(), "write columns and numbers")),
        }
    }
    Ok(Call { name, is_distinct, arguments: Some(arguments) })
}

/// Reads an aggregate.
pub(super) fn read_aggregate(
    reader: &mut StatementReader<'_>,
    expression: &Expr,
) -> Result<AggregateMeasure, SqlError> {
    let Expr::Function(function) = expression else {
        let remedy = "name an aggregate, or a column of GROUP BY: rows do not leave the site";
        return Err(SqlError::clause(expression.to_string(), remedy));
    };
    let call = read_call(function)?;
    let Some(arguments) = &call.arguments else {
        return match call.name.as_str() {
            "count" if !call.is_distinct => Ok(AggregateMeasure::Count { column: None }),
            _ => Err(SqlError::clause(expression.to_string(), "write count(*), or name a column")),
        };
    };
    let Some((first, rest)) = arguments.split_first() else {
        return Err(SqlError::clause(expression.to_string(), "name the column of the aggregate"));
    };
    if call.is_distinct {
        let is_units = call.name == "count" && rest.is_empty() && column_name(first)? == reader.schema.unit_column;
        if is_units {
            return Ok(AggregateMeasure::CountUnits);
        }
        return Err(SqlError::clause(expression.to_string(), "DISTINCT counts units alone: name the column of units"));
    }
    let column = reader.read_column(first)?;
    match (call.name.as_str(), rest) {
        ("covariance" | "covar_pop" | "corr", [_, ..]) => {
            let rest = rest.iter().map(|other| reader.read_column(other)).collect::<Result<Vec<_>, _>>()?;
            return Ok(AggregateMeasure::Covariance { columns: std::iter::once(column).chain(rest).collect() });
        }
        ("linear_regression", [_, ..]) | ("regr_slope" | "regr_intercept" | "regr_r2", [_]) => {
            let features = rest.iter().map(|other| reader.read_column(other)).collect::<Result<Vec<_>, _>>()?;
            return Ok(AggregateMeasure::LinearRegression { target: column, features });
        }
        ("survival", [event, edges @ ..]) => {
            let event = reader.read_column(event)?;
            let edges = edges.iter().map(|edge| read_real(edge)).collect::<Result<_, _>>()?;
            return Ok(AggregateMeasure::Survival { time: column, event, edges });
        }
        _ => {}
    }
    let numbers: Vec<f64> = rest.iter().map(|argument| read_real(argument)).collect::<Result<_, _>>()?;
    match (call.name.as_str(), numbers.is_empty()) {
        ("count", true) => Ok(AggregateMeasure::Count { column: Some(column) }),
        ("sum", true) => Ok(AggregateMeasure::Sum { column }),
        ("avg" | "mean", true) => Ok(AggregateMeasure::Mean { column }),
        ("variance" | "var" | "var_pop" | "stddev" | "stddev_pop", true) => Ok(AggregateMeasure::Variance { column }),
        ("histogram", _) => Ok(AggregateMeasure::Histogram { column, edges: numbers }),
        ("median", true) => Ok(AggregateMeasure::Quantiles { column, probabilities: vec![0.5], levels: LEVELS }),
        ("quantiles" | "approx_percentile_cont", false) => {
            Ok(AggregateMeasure::Quantiles { column, probabilities: numbers, levels: LEVELS })
        }
        ("min" | "max", _) => Err(SqlError::clause(
            call.name,
            "it depends on one row: write quantiles(column, 0.01) or quantiles(column, 0.99)",
        )),
        _ => {
            let remedy = "use count, sum, avg, variance, histogram(column, edges...), median, quantiles(column, p...), \
                 survival(time, event, edges...), covariance(column, column...) or \
                 linear_regression(target, feature...)";
            Err(SqlError::clause(expression.to_string(), remedy))
        }
    }
}

/// Returns whether a key is `site()`: each site answers on its own.
pub(super) fn is_site(expression: &Expr) -> bool {
    let Expr::Function(function) = expression else { return false };
    read_call(function).is_ok_and(|call| {
        call.name == "site" && !call.is_distinct && call.arguments.is_some_and(|arguments| arguments.is_empty())
    })
}

/// Reads the number of a `LIMIT`.
pub(super) fn read_limit(clause: &LimitClause) -> Result<u32, SqlError> {
    let number = match clause {
        LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by } if limit_by.is_empty() => {
            read_value(limit)?
        }
        _ => FilterValue::Boolean(false),
    };
    match number {
        FilterValue::Integer(number) if number > 0 => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        _ => Err(SqlError::clause(clause.to_string().trim().to_owned(), "write LIMIT and a number, such as LIMIT 100")),
    }
}

/// Reads a key: a column of categories, booleans or keys, `bucket(column, edges...)`, or `date_trunc('month', column)` over
/// the declared dates.
pub(super) fn read_key(reader: &mut StatementReader<'_>, expression: &Expr) -> Result<GroupKey, SqlError> {
    let Expr::Function(function) = expression else {
        let column = reader.read_column(expression)?;
        return Ok(match reader.schema.find_column(&column) {
            Some((_, ColumnKind::Key { .. })) => GroupKey::Selected { column, most: SELECTED },
            _ => GroupKey::Values { column },
        });
    };
    let call = read_call(function)?;
    match (call.name.as_str(), call.arguments.as_deref()) {
        ("bucket", Some([column, edges @ ..])) => {
            let column = reader.read_column(column)?;
            let edges = edges.iter().map(|edge| read_real(edge)).collect::<Result<_, _>>()?;
            Ok(GroupKey::Ranges { column, edges })
        }
        ("date_trunc", Some([period, column])) => {
            let every = read_period(period)?;
            let column = reader.read_column(column)?;
            let (first, last) = declared_dates(reader.schema, &column)?;
            Ok(GroupKey::Dates { column, every, first, last })
        }
        _ => {
            let remedy = "group by a column, bucket(column, edges...), date_trunc('month', column), or site()";
            Err(SqlError::clause(expression.to_string(), remedy))
        }
    }
}

fn read_period(expression: &Expr) -> Result<DatePeriod, SqlError> {
    let word = match read_value(expression)? {
        FilterValue::Text(text) => text.to_ascii_lowercase(),
        _ => String::new(),
    };
    match word.as_str() {
        "day" => Ok(DatePeriod::Day),
        "week" => Ok(DatePeriod::Week),
        "month" => Ok(DatePeriod::Month),
        "quarter" => Ok(DatePeriod::Quarter),
        "year" => Ok(DatePeriod::Year),
        _ => Err(SqlError::clause(expression.to_string(), "write 'day', 'week', 'month', 'quarter' or 'year'")),
    }
}

fn declared_dates(
    schema: &TableSchema,
    column: &str,
) -> Result<(crate::table::CalendarDate, crate::table::CalendarDate), SqlError> {
    match schema.find_column(column) {
        Some((_, ColumnKind::Date { first, last })) => Ok((*first, *last)),
        _ => Err(SqlError::clause(format!("date_trunc of `{column}`"), "name a column of dates")),
    }
}
