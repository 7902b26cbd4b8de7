//! Conditions of a `WHERE` clause.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::{SqlError, StatementReader, expression};
use crate::job::analytics::filter::{Comparison, RowFilter};
use crate::table::ColumnKind;

impl StatementReader<'_> {
    /// Returns the filter of a condition.
    pub(super) fn read_condition(&mut self, condition: &Expr) -> Result<RowFilter, SqlError> {
        match condition {
            Expr::Nested(inner) => self.read_condition(inner),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => negate(self.read_condition(expr)?, true),
            Expr::IsNull(column) => Ok(RowFilter::IsNull { column: self.read_column(column)? }),
            Expr::IsNotNull(column) => negate(RowFilter::IsNull { column: self.read_column(column)? }, true),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                Ok(RowFilter::And { of: self.read_pair(left, right, &BinaryOperator::And)? })
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                Ok(RowFilter::Or { of: self.read_pair(left, right, &BinaryOperator::Or)? })
            }
            Expr::BinaryOp { left, op, right } => self.read_comparison(left, op, right),
            Expr::InList { expr, list, negated } => {
                let column = self.read_column(expr)?;
                let values = list.iter().map(expression::read_value).collect::<Result<_, _>>()?;
                negate(RowFilter::In { column, values }, *negated)
            }
            Expr::Between { expr, negated, low, high } => {
                let column = self.read_column(expr)?;
                let low = expression::read_value(low)?;
                let high = expression::read_value(high)?;
                negate(RowFilter::Between { column, low, high }, *negated)
            }
            // A column of booleans is a condition itself.
            Expr::Identifier(_) => {
                let column = self.read_column(condition)?;
                if !matches!(self.schema.find_column(&column), Some((_, ColumnKind::Boolean))) {
                    return Err(SqlError::clause(column, "compare the column with a value"));
                }
                let value = crate::job::analytics::FilterValue::Boolean(true);
                Ok(RowFilter::Compare { column, comparison: Comparison::Equal, value })
            }
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::RLike { .. } => {
                Err(SqlError::clause("LIKE", "list the declared values with IN"))
            }
            Expr::InSubquery { .. } | Expr::Exists { .. } | Expr::Subquery(_) => {
                Err(SqlError::clause("a subquery", "add a view with its result at the site"))
            }
            other => {
                Err(SqlError::clause(other.to_string(), "compare a column with a value, or use IN, BETWEEN, IS NULL"))
            }
        }
    }

    /// Returns the conditions of a chain of one operator, without its nesting.
    fn read_pair(&mut self, left: &Expr, right: &Expr, op: &BinaryOperator) -> Result<Vec<RowFilter>, SqlError> {
        let mut all = match left {
            Expr::BinaryOp { left, op: own, right } if own == op => self.read_pair(left, right, op)?,
            other => vec![self.read_condition(other)?],
        };
        all.push(self.read_condition(right)?);
        Ok(all)
    }

    fn read_comparison(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<RowFilter, SqlError> {
        let comparison = match op {
            BinaryOperator::Eq => Comparison::Equal,
            BinaryOperator::NotEq => Comparison::NotEqual,
            BinaryOperator::Lt => Comparison::Less,
            BinaryOperator::LtEq => Comparison::AtMost,
            BinaryOperator::Gt => Comparison::Greater,
            BinaryOperator::GtEq => Comparison::AtLeast,
            other => {
                return Err(SqlError::clause(other.to_string(), "compare a column with =, <>, <, <=, > or >="));
            }
        };
        // `18 <= age` is `age >= 18`.
        let (column, value, comparison) = match expression::read_value(left) {
            Ok(value) => (right, value, mirror(comparison)),
            Err(_) => (left, expression::read_value(right)?, comparison),
        };
        Ok(RowFilter::Compare { column: self.read_column(column)?, comparison, value })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "each arm of the reader returns a result")]
fn negate(filter: RowFilter, is_negated: bool) -> Result<RowFilter, SqlError> {
    Ok(if is_negated { RowFilter::Not { of: Box::new(filter) } } else { filter })
}

const fn mirror(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::AtMost => Comparison::AtLeast,
        Comparison::Greater => Comparison::Less,
        Comparison::AtLeast => Comparison::AtMost,
        same => same,
    }
}
