//! A restricted SQL text, read into the queries of a spec.
//!
//! ```sql
//! SELECT sex, count(*), count(DISTINCT patient), avg(age), quantiles(age, 0.25, 0.5, 0.75)
//! FROM visits WHERE age >= 18 AND ward IN ('a', 'b') GROUP BY sex, date_trunc('year', visit)
//! ```
//!
//! Each statement becomes one query. Its text is parsed by the parser of DataFusion, and each clause that it may have
//! is named here: another one is refused by its name, with the remedy. `LIMIT` bounds the groups of a column of keys, which
//! the job chooses. The name after `FROM` is not used, because each
//! participant has one table.

mod condition;
mod expression;
mod text;

use sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::query::{AggregateMeasure, ContributionLimits, GroupKey, TableAggregate, TableQuery};
use crate::table::{TableColumn, TableSchema};

pub use text::write_queries;

/// The longest text, in bytes.
pub const LONGEST_SQL: usize = 16_384;
/// The deepest nesting that the parser follows.
const DEEPEST: usize = 24;

/// Why a text is no query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// The text is too long, or empty.
    #[error("write 1 to {LONGEST_SQL} bytes of SQL, not {0}")]
    Length(usize),
    /// The text is no SQL.
    #[error("cannot read the SQL: {0}")]
    Syntax(String),
    /// A clause that no query of tables has.
    #[error("{clause} is not possible: {remedy}")]
    Clause {
        /// The clause.
        clause: String,
        /// What to write instead.
        remedy: &'static str,
    },
    /// A column that the table does not declare.
    #[error("the table has no column `{0}`: use a declared one")]
    Column(String),
}

impl SqlError {
    fn clause(clause: impl Into<String>, remedy: &'static str) -> Self {
        let clause: String = clause.into();
        Self::Clause { clause: clause.chars().take(80).collect(), remedy }
    }
}

/// The queries of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlQueries {
    /// One query for each statement, with the name `query 1` and so on.
    pub queries: Vec<TableQuery>,
    /// The columns that they use, as the schema declares them.
    pub columns: Vec<TableColumn>,
}

/// Reads the statements of a text about a table. Each query has the given limits.
///
/// # Errors
/// [`SqlError`] with the first clause, column or value that is not possible.
pub fn parse_queries(text: &str, schema: &TableSchema, limits: ContributionLimits) -> Result<SqlQueries, SqlError> {
    if text.trim().is_empty() || text.len() > LONGEST_SQL {
        return Err(SqlError::Length(text.len()));
    }
    let syntax =
        |error: sqlparser::parser::ParserError| SqlError::Syntax(error.to_string().chars().take(200).collect());
    let parser = Parser::new(&GenericDialect {}).with_recursion_limit(DEEPEST).try_with_sql(text);
    let statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(syntax)?;
    let mut used = Vec::new();
    let mut queries = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        let Statement::Query(query) = statement else {
            let word = statement.to_string().split_whitespace().next().unwrap_or_default().to_owned();
            return Err(SqlError::clause(word, "write SELECT statements"));
        };
        let mut reader = StatementReader { schema, used: &mut used };
        queries.push(reader.read_query(query, format!("query {}", index + 1), limits)?);
    }
    let columns = schema.columns.iter().filter(|column| used.contains(&column.name)).cloned().collect();
    Ok(SqlQueries { queries, columns })
}

/// Reads one statement.
struct StatementReader<'a> {
    schema: &'a TableSchema,
    /// The names of the columns that the statements use.
    used: &'a mut Vec<String>,
}

impl StatementReader<'_> {
    fn read_query(&mut self, query: &Query, name: String, limits: ContributionLimits) -> Result<TableQuery, SqlError> {
        let refusals = [
            (query.with.is_some(), "WITH", "write one SELECT over the table"),
            (query.order_by.is_some(), "ORDER BY", "groups are listed in their declared order"),
            (query.fetch.is_some(), "FETCH", "groups are declared, so each is listed"),
            (!query.locks.is_empty(), "FOR UPDATE", "a query reads"),
            (query.for_clause.is_some(), "FOR", "a query returns a table"),
            (query.settings.is_some(), "SETTINGS", "remove it"),
            (query.format_clause.is_some(), "FORMAT", "download the result as CSV, Parquet or JSON"),
            (!query.pipe_operators.is_empty(), "|>", "write one SELECT over the table"),
        ];
        refuse(&refusals)?;
        let most = query.limit_clause.as_ref().map(expression::read_limit).transpose()?;
        match &*query.body {
            SetExpr::Select(select) => self.read_select(select, name, limits, most),
            SetExpr::SetOperation { op, .. } => {
                Err(SqlError::clause(op.to_string(), "write a statement for each table, separated by `;`"))
            }
            other => Err(SqlError::clause(other.to_string(), "write SELECT ... FROM ...")),
        }
    }

    fn read_select(
        &mut self,
        select: &Select,
        name: String,
        limits: ContributionLimits,
        most: Option<u32>,
    ) -> Result<TableQuery, SqlError> {
        check_select(select)?;
        check_from(&select.from)?;
        let filter = select.selection.as_ref().map(|condition| self.read_condition(condition)).transpose()?;
        let groups = match &select.group_by {
            GroupByExpr::Expressions(expressions, modifiers) if modifiers.is_empty() => expressions,
            other => return Err(SqlError::clause(other.to_string(), "name the columns of the groups")),
        };
        let by_site = groups.iter().any(expression::is_site);
        let keys = groups.iter().filter(|group| !expression::is_site(group));
        let mut keys: Vec<GroupKey> = keys.map(|group| self.read_key(group)).collect::<Result<_, _>>()?;
        if let Some(limit) = most {
            let mut is_used = false;
            for key in &mut keys {
                if let GroupKey::Selected { most, .. } = key {
                    *most = limit;
                    is_used = true;
                }
            }
            if !is_used {
                let remedy = "it bounds the groups of a column of keys; declared groups are listed, and limits on units are \
                     `limits`";
                return Err(SqlError::clause("LIMIT", remedy));
            }
        }
        let mut aggregates = Vec::new();
        for item in &select.projection {
            let expression = match item {
                SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => expression,
                other => {
                    return Err(SqlError::clause(other.to_string(), "name aggregates: rows do not leave the site"));
                }
            };
            if !groups.contains(expression) {
                aggregates.push(TableAggregate { measure: self.read_aggregate(expression)?, share: 1.0 });
            }
        }
        Ok(TableQuery { name, filter, group_by: keys, by_site, limits, aggregates })
    }

    /// Returns the name of a declared column, and notes its use.
    fn read_column(&mut self, expression: &Expr) -> Result<String, SqlError> {
        let name = expression::column_name(expression)?;
        if self.schema.find_column(&name).is_none() {
            let remedy = "the column of units can be counted with count(DISTINCT ...), not read";
            let is_unit = name == self.schema.unit_column;
            return Err(if is_unit { SqlError::clause(name, remedy) } else { SqlError::Column(name) });
        }
        if !self.used.contains(&name) {
            self.used.push(name.clone());
        }
        Ok(name)
    }

    fn read_aggregate(&mut self, expression: &Expr) -> Result<AggregateMeasure, SqlError> {
        expression::read_aggregate(self, expression)
    }

    fn read_key(&mut self, expression: &Expr) -> Result<GroupKey, SqlError> {
        expression::read_key(self, expression)
    }
}

/// Refuses the first clause that is present.
fn refuse(refusals: &[(bool, &str, &'static str)]) -> Result<(), SqlError> {
    match refusals.iter().find(|(is_present, ..)| *is_present) {
        Some((_, clause, remedy)) => Err(SqlError::clause(*clause, remedy)),
        None => Ok(()),
    }
}

fn check_select(select: &Select) -> Result<(), SqlError> {
    refuse(&[
        (select.distinct.is_some(), "SELECT DISTINCT", "count units with count(DISTINCT ...)"),
        (select.top.is_some(), "TOP", "groups are declared, so each is listed"),
        (select.select_modifiers.is_some(), "a modifier of SELECT", "remove it"),
        (!select.optimizer_hints.is_empty(), "a hint", "remove it"),
        (select.exclude.is_some(), "EXCLUDE", "name the aggregates"),
        (select.into.is_some(), "INTO", "a query reads"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW", "prepare the columns when the table is added"),
        (select.prewhere.is_some(), "PREWHERE", "use WHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY", "prepare the columns when the table is added"),
        (!select.cluster_by.is_empty(), "CLUSTER BY", "use GROUP BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY", "use GROUP BY"),
        (!select.sort_by.is_empty(), "SORT BY", "groups are listed in their declared order"),
        (select.having.is_some(), "HAVING", "a condition on a result would be a release; filter the result"),
        (!select.named_window.is_empty(), "WINDOW", "use GROUP BY"),
        (select.qualify.is_some(), "QUALIFY", "use WHERE"),
        (select.value_table_mode.is_some(), "AS STRUCT", "name the aggregates"),
        (select.flavor != SelectFlavor::Standard, "FROM before SELECT", "write SELECT ... FROM ..."),
    ])
}

fn check_from(from: &[TableWithJoins]) -> Result<(), SqlError> {
    let [table] = from else {
        return Err(SqlError::clause(
            "a list of tables",
            "name one table; join tables when they are added at the site",
        ));
    };
    if !table.joins.is_empty() {
        return Err(SqlError::clause("JOIN", "join tables when they are added at the site: add a query or a view"));
    }
    match &table.relation {
        TableFactor::Table {
            args: None, with_hints, version: None, partitions, json_path: None, sample: None, ..
        } if with_hints.is_empty() && partitions.is_empty() => Ok(()),
        TableFactor::Derived { .. } => {
            Err(SqlError::clause("a subquery in FROM", "put its condition into WHERE, or add a view at the site"))
        }
        other => Err(SqlError::clause(other.to_string(), "name one table")),
    }
}
