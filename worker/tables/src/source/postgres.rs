//! A query or a view of PostgreSQL, read through a role that cannot write.
//!
//! The statement is `SELECT columns FROM (query) AS source WHERE filter`: PostgreSQL applies projection and filter, and
//! shortens texts that no column can hold. It runs in a transaction that is read-only and sees one state of the
//! database, as a cursor, so that memory stays bounded. Each statement is prepared, and PostgreSQL prepares one command
//! at a time: a query that contains a second command is refused by the database.

pub mod error;

use std::net::IpAddr;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use tokio::runtime::Runtime;
use undertone_api::table::TableSchema;

use self::error::{LONGEST_QUERY, PostgresError};
use super::{RowSource, SourceRow, SourceStep, list_columns, to_text};
use crate::error::TableError;
use crate::value::{LONGEST_UNIT, SourceValue};

/// Rows that are fetched at once.
const BATCH: usize = 500;

/// The commands that begin the reading: one state of the database, no writes, and one form of each value.
const SETTINGS: [&str; 4] = [
    "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL datestyle TO 'ISO, YMD'",
    "SET LOCAL timezone TO 'UTC'",
    "SET LOCAL extra_float_digits TO 1",
];

/// Whether the role may write a table, or is an administrator.
const RIGHTS: &str = "SELECT (SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = current_user) \
                      OR EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
                      WHERE relkind IN ('r', 'p', 'v', 'f') AND nspname NOT IN ('pg_catalog', 'information_schema') \
                      AND nspname NOT LIKE 'pg\\_t%' \
                      AND has_table_privilege(pg_class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE'))";

/// The query or view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresRelation {
    /// A query: one `SELECT`.
    Query(String),
    /// The name of a view or a table, with its schema before a dot or without one.
    View(String),
}

/// A source in PostgreSQL.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The address: `postgres://role:password@host/database?sslmode=verify-full`.
    pub url: String,
    /// The query or view.
    pub relation: PostgresRelation,
    /// A condition on its rows, as SQL, that PostgreSQL applies.
    pub filter: Option<String>,
}

/// Prints no address, which may contain a password.
impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions").field("relation", &self.relation).finish_non_exhaustive()
    }
}

/// The rows of a query, fetched through a cursor.
pub struct PostgresSource {
    runtime: Runtime,
    connection: PgConnection,
    batch: std::vec::IntoIter<PgRow>,
    columns: usize,
    row: u64,
}

impl PostgresSource {
    /// Connects, checks the role, and opens the cursor.
    pub(super) fn open(options: &PostgresOptions, schema: &TableSchema) -> Result<Self, PostgresError> {
        let address = parse_address(&options.url)?;
        let statement = to_statement(options, schema)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(PostgresError::Thread)?;
        let connection = runtime.block_on(async {
            let mut connection = address.connect().await.map_err(PostgresError::server("be reached"))?;
            for setting in SETTINGS {
                sqlx::query(setting)
                    .execute(&mut connection)
                    .await
                    .map_err(PostgresError::server("begin a transaction"))?;
            }
            let may_write: bool = sqlx::query_scalar(RIGHTS)
                .fetch_one(&mut connection)
                .await
                .map_err(PostgresError::server("state the rights of the role"))?;
            if may_write {
                return Err(PostgresError::MayWrite { role: address.get_username().to_owned() });
            }
            sqlx::query(AssertSqlSafe(statement))
                .execute(&mut connection)
                .await
                .map_err(PostgresError::server("run the query"))?;
            Ok(connection)
        })?;
        Ok(Self { runtime, connection, batch: Vec::new().into_iter(), columns: schema.columns.len(), row: 0 })
    }

    fn read(row: &PgRow, place: usize) -> Result<SourceValue, PostgresError> {
        let text: Option<String> = row.try_get(place).map_err(PostgresError::server("return a row as text"))?;
        Ok(text.map_or(SourceValue::Missing, |text| to_text(&text)))
    }
}

impl RowSource for PostgresSource {
    fn next_row(&mut self, row: &mut SourceRow) -> Result<SourceStep, TableError> {
        let mut fetched = self.batch.next();
        if fetched.is_none() {
            let fetch = AssertSqlSafe(format!("FETCH {BATCH} FROM undertone_rows"));
            let rows = self.runtime.block_on(sqlx::query(fetch).fetch_all(&mut self.connection));
            self.batch = rows.map_err(PostgresError::server("return rows"))?.into_iter();
            fetched = self.batch.next();
        }
        let Some(fetched) = fetched else { return Ok(SourceStep::End) };
        self.row += 1;
        row.unit = Self::read(&fetched, 0)?;
        row.values.clear();
        for place in 1..=self.columns {
            row.values.push(Self::read(&fetched, place)?);
        }
        Ok(SourceStep::Row)
    }

    fn line(&self) -> u64 {
        self.row
    }
}

/// Parses an address, and refuses one that would send rows over a network without encryption.
fn parse_address(url: &str) -> Result<PgConnectOptions, PostgresError> {
    let url = url.trim();
    if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
        return Err(PostgresError::Url);
    }
    let options: PgConnectOptions = url.parse().map_err(|_| PostgresError::Url)?;
    let host = options.get_host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_local = options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match options.get_ssl_mode() {
        PgSslMode::VerifyFull | PgSslMode::VerifyCa | PgSslMode::Require => {}
        _ if is_local => {}
        _ => return Err(PostgresError::Insecure { host }),
    }
    Ok(options.application_name("undertone-worker").disable_statement_logging())
}

/// Returns the statement that opens the cursor.
fn to_statement(options: &PostgresOptions, schema: &TableSchema) -> Result<String, PostgresError> {
    let check = |argument, text: &str| {
        let is_valid = (1..=LONGEST_QUERY).contains(&text.trim().len());
        if is_valid { Ok(()) } else { Err(PostgresError::Length { argument }) }
    };
    // One character more than a value may have, so that a longer one is recognized.
    let columns: Vec<String> =
        list_columns(schema).map(|name| format!("left(({})::text, {})", quote(name), LONGEST_UNIT + 1)).collect();
    let relation = match &options.relation {
        PostgresRelation::Query(query) => {
            check("--query", query)?;
            format!("(\n{query}\n)")
        }
        PostgresRelation::View(name) => {
            check("--view", name)?;
            name.split('.').map(quote).collect::<Vec<_>>().join(".")
        }
    };
    let filter = match &options.filter {
        None => String::new(),
        Some(filter) => {
            check("--where", filter)?;
            format!(" WHERE (\n{filter}\n)")
        }
    };
    let columns = columns.join(", ");
    Ok(format!("DECLARE undertone_rows NO SCROLL CURSOR FOR SELECT {columns} FROM {relation} AS source{filter}"))
}

/// Quotes a name.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.trim().replace('"', "\"\""))
}

#[cfg(test)]
mod tests;
