//! Options of the database connections: one for writing, several for reading, and on PostgreSQL some for concurrent
//! writes.

use sea_orm::ConnectOptions;
use sea_orm::sqlx::Connection as _;
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};

use super::{CONCURRENT_WRITERS, PATIENCE, READERS};

/// Returns the options of the single writer.
pub(super) fn writer(url: &str) -> ConnectOptions {
    options(url, false)
}

/// Returns the options of readers; the database refuses writes through them.
pub(super) fn reader(url: &str) -> ConnectOptions {
    options(url, true)
}

/// Returns the options of writes concurrent with the single writer, on PostgreSQL.
pub(super) fn concurrent_writer(url: &str) -> ConnectOptions {
    let mut options = writer(url);
    // Connected on first use.
    options.max_connections(CONCURRENT_WRITERS).connect_lazy(true);
    options.map_sqlx_postgres_opts(|postgres| postgres.options([("lock_timeout", PATIENCE.as_millis().to_string())]));
    options
}

fn options(url: &str, reading: bool) -> ConnectOptions {
    let mut options = ConnectOptions::new(url.to_owned());
    options.max_connections(if reading { READERS } else { 1 }).acquire_timeout(PATIENCE).sqlx_logging(false);
    options.map_sqlx_sqlite_opts(move |sqlite| {
        let sqlite = sqlite
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(PATIENCE);
        if reading { sqlite.pragma("query_only", "ON") } else { sqlite }
    });
    if !reading {
        // A failed commit may leave the same state as a failed rollback, see `roll_back`: a connection that still
        // counts a transaction is not reused.
        options.map_sqlx_sqlite_pool_opts(|pool| {
            pool.after_release(|connection, _| {
                Box::pin(async move {
                    // A dropped transaction is rolled back first.
                    connection.ping().await?;
                    Ok(!connection.is_in_transaction())
                })
            })
        });
    }
    options.map_sqlx_postgres_opts(move |postgres| {
        if reading { postgres.options([("default_transaction_read_only", "on")]) } else { postgres }
    });
    options
}
