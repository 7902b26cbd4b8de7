//! How connections to the database are made: one that writes, several that read, and on PostgreSQL some beside the one that writes.

use sea_orm::ConnectOptions;
use sea_orm::sqlx::Connection as _;
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};

use super::{BESIDE, PATIENCE, READERS};

/// Of the one writer.
pub(super) fn writing(url: &str) -> ConnectOptions {
    options(url, false)
}

/// Of readers; the database refuses what is written through them.
pub(super) fn reading(url: &str) -> ConnectOptions {
    options(url, true)
}

/// Of what is written beside the one writer, on PostgreSQL.
pub(super) fn beside(url: &str) -> ConnectOptions {
    let mut options = writing(url);
    // Made when they are needed first.
    options.max_connections(BESIDE).connect_lazy(true);
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
        // A commit that failed may leave as much behind as a rollback, see `roll_back`: who counts on is not used again.
        options.map_sqlx_sqlite_pool_opts(|pool| {
            pool.after_release(|connection, _| {
                Box::pin(async move {
                    // What was dropped rolls back first.
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
