//! Facts about the database for `doctor`: read without writing, next to a running server.

use std::time::{Duration, Instant};

use sea_orm::{ConnectionTrait as _, DbBackend, DbErr, QueryResult, Statement};
use time::OffsetDateTime;

use super::{Db, WRITER_LOCK, open, open_pool, options, reach};

/// The facts of PostgreSQL, in one row. A role without `pg_monitor` does not see the start times of other roles'
/// transactions.
const POSTGRES_FACTS: &str = "SELECT current_setting('server_version') AS version, \
     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, \
     current_setting('max_connections')::bigint AS most, \
     (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used, \
     (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS waiting, \
     (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity \
      WHERE datname = current_database() AND pid <> pg_backend_pid()) AS oldest, \
     pg_database_size(current_database()) AS bytes";
/// The facts of SQLite, in one row.
const SQLITE_FACTS: &str = "SELECT sqlite_version() AS version, page_count * page_size AS bytes \
     FROM pragma_page_count(), pragma_page_size()";

/// Facts about a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseFacts {
    /// The program and its version.
    pub version: String,
    /// Bytes of the tables.
    pub bytes: u64,
    /// The facts of a database server; `None` on SQLite.
    pub server: Option<ServerFacts>,
}

/// Facts about a database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its clock.
    pub now: OffsetDateTime,
    /// Connections of all its clients.
    pub used_connections: u64,
    /// Connections that it allows.
    pub most_connections: u64,
    /// Connections that wait for an advisory lock of this database, including those that wait for the writer's turn.
    pub waiting_writers: u64,
    /// The age of the oldest open transaction of this database.
    pub oldest_transaction: Duration,
}

/// Connects for reading only; a PostgreSQL server gets `patience` to accept the connection.
///
/// # Errors
/// If the database does not exist or refuses the connection: with its address and the reason.
pub async fn connect_to_examine(url: &str, patience: Duration) -> Result<Db, DbErr> {
    if !url.starts_with("sqlite:") {
        reach::reach_once(&url.parse().map_err(reach::connection_error)?, patience).await?;
    }
    Db::inspect(url).await
}

/// Waits for the writer's turn once, releases it without writing, and returns the time that it took.
///
/// # Errors
/// If the turn does not come within `patience`, or the database fails.
pub async fn probe_turn(url: &str, patience: Duration) -> Result<Duration, DbErr> {
    let mut options = options::writer(url);
    options.acquire_timeout(patience);
    options.map_sqlx_sqlite_opts(move |sqlite| sqlite.create_if_missing(false).busy_timeout(patience));
    let connection = open_pool(options).await?;
    let start = Instant::now();
    let tx = open(&connection).await?;
    if connection.get_database_backend() == DbBackend::Postgres {
        let wait = patience.as_millis();
        let turn = format!("SET LOCAL lock_timeout = {wait}; SELECT pg_advisory_xact_lock({WRITER_LOCK})");
        tx.execute_unprepared(&turn).await?;
    }
    let waited = start.elapsed();
    tx.rollback().await?;
    connection.close().await?;
    Ok(waited)
}

impl Db {
    /// Reads the facts that `doctor` judges.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn facts(&self) -> Result<DatabaseFacts, DbErr> {
        let backend = self.reader.get_database_backend();
        let is_postgres = backend == DbBackend::Postgres;
        let text = if is_postgres { POSTGRES_FACTS } else { SQLITE_FACTS };
        let row = self.reader.query_one_raw(Statement::from_string(backend, text)).await?;
        let row = row.ok_or_else(|| DbErr::RecordNotFound("the facts of the database".to_owned()))?;
        let version: String = row.try_get("", "version")?;
        let name = if is_postgres { "PostgreSQL" } else { "SQLite" };
        Ok(DatabaseFacts {
            version: format!("{name} {version}"),
            bytes: number(&row, "bytes")?,
            server: if is_postgres { Some(server_facts(&row)?) } else { None },
        })
    }

    /// Returns whether a server has ever created its tables here.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn has_begun(&self) -> Result<bool, DbErr> {
        let backend = self.reader.get_database_backend();
        let text = if backend == DbBackend::Postgres {
            "SELECT 1 AS one FROM information_schema.tables WHERE table_name = 'seaql_migrations'"
        } else {
            "SELECT 1 AS one FROM sqlite_master WHERE type = 'table' AND name = 'seaql_migrations'"
        };
        Ok(self.reader.query_one_raw(Statement::from_string(backend, text)).await?.is_some())
    }
}

fn server_facts(row: &QueryResult) -> Result<ServerFacts, DbErr> {
    let micros: i64 = row.try_get("", "micros")?;
    let now = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000);
    Ok(ServerFacts {
        now: now.map_err(|error| DbErr::Type(error.to_string()))?,
        used_connections: number(row, "used")?,
        most_connections: number(row, "most")?,
        waiting_writers: number(row, "waiting")?,
        oldest_transaction: Duration::from_secs(number(row, "oldest")?),
    })
}

fn number(row: &QueryResult, column: &str) -> Result<u64, DbErr> {
    let number: i64 = row.try_get("", column)?;
    Ok(u64::try_from(number).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{connect_to_examine, probe_turn};
    use crate::fairness::WorkOwner;
    use crate::testing::on_both;

    const PATIENCE: Duration = Duration::from_millis(300);

    on_both! {
        async fn facts_are_read_and_the_turn_is_taken(app: &TestDatabase) {
            let url = app.url.as_str();
            let db = connect_to_examine(url, Duration::from_secs(10)).await.expect("it answers");
            assert!(db.has_begun().await.expect("answered"));
            let facts = db.facts().await.expect("answered");
            assert!(facts.bytes > 0, "{facts:?}");
            assert_eq!(facts.server.is_some(), facts.version.starts_with("PostgreSQL"), "{facts:?}");
            if let Some(server) = facts.server {
                assert!(server.most_connections > 0 && server.used_connections > 0, "{server:?}");
            }
            probe_turn(url, Duration::from_secs(10)).await.expect("nobody writes");
            db.close().await.expect("closed");
        }

        async fn turn_that_a_writer_holds_is_not_waited_for_long(app: &TestDatabase) {
            let url = app.url.as_str();
            let (_turn, writer) = app.db.begin(WorkOwner::System).await.expect("its turn");
            assert!(probe_turn(url, PATIENCE).await.is_err());
            writer.rollback().await.expect("rolled back");
            probe_turn(url, Duration::from_secs(10)).await.expect("nobody writes");
        }
    }

    #[tokio::test]
    async fn missing_sqlite_file_is_not_made() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("none.sqlite");
        let url = format!("sqlite://{}?mode=rwc", path.display());
        assert!(connect_to_examine(&url, PATIENCE).await.is_err());
        assert!(probe_turn(&url, PATIENCE).await.is_err());
        assert!(!path.exists());
    }
}
