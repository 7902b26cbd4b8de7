//! The reasons why a query does not fit the columns of its spec.

use crate::table::{ColumnKind, TableColumn};

/// Why a query does not fit the columns of its spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A column that the spec does not have.
    #[error("there is no column `{0}` in `columns`: name a declared one")]
    Column(String),
    /// A value of another kind.
    #[error("a value for column `{column}` is {expected}")]
    Value {
        /// The column.
        column: String,
        /// What its values are.
        expected: String,
    },
    /// An order of values that have none.
    #[error("column `{column}` is of kind {kind}, whose values have no order: use `=`, `<>` or `IN`")]
    Order {
        /// The column.
        column: String,
        /// The kind.
        kind: &'static str,
    },
    /// An aggregate or a key that the kind of its column does not have.
    #[error("column `{column}` is of kind {kind}; {use_of} needs {needed}")]
    Kind {
        /// The column.
        column: String,
        /// The kind.
        kind: &'static str,
        /// The aggregate or the key.
        use_of: &'static str,
        /// The kinds that it needs.
        needed: &'static str,
    },
    /// Edges that are not ascending.
    #[error("edges for column `{0}`: 2 to 1,001 finite numbers, ascending, with a grid step between neighbours")]
    Edges(String),
    /// Dates that are not in order, or too many groups.
    #[error("groups of dates of column `{0}`: `first` not after `last`, and at most 1,000 groups")]
    Dates(String),
    /// A filter that is too large.
    #[error("a filter has at most 256 conditions, 16 levels, and 1 to 1,000 values in a list")]
    FilterSize,
}

impl ResolveError {
    /// Returns the position and the kind of a column.
    pub(super) fn find<'a>(columns: &'a [TableColumn], name: &str) -> Result<(usize, &'a ColumnKind), Self> {
        let position = columns.iter().position(|column| column.name == name);
        position.map(|place| (place, &columns[place].kind)).ok_or_else(|| Self::Column(name.to_owned()))
    }
}
