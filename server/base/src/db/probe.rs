//! A write without effect, for the health check.

use sea_orm::ConnectionTrait as _;

use super::Db;
use crate::error::Error;
use crate::fairness::WorkOwner;

/// Rewrites the newest migration's row unchanged: a real transaction, without a table of its own.
const REWRITE: &str = "UPDATE seaql_migrations SET applied_at = applied_at \
                       WHERE version = (SELECT MAX(version) FROM seaql_migrations)";

impl Db {
    /// Commits one write without effect.
    ///
    /// # Errors
    /// If the database cannot commit.
    pub async fn probe_write(&self) -> Result<(), Error> {
        let write = self.write_concurrent("probe", async |tx| {
            tx.execute_unprepared(REWRITE).await?;
            Ok(())
        });
        // The server owns the write, whichever caller requested the check.
        WorkOwner::System.scope(write).await
    }

    /// Returns the space of SQLite's write-ahead log to the disk, so that the next write must allocate.
    ///
    /// # Errors
    /// If the database fails.
    #[cfg(any(test, feature = "testing"))]
    pub async fn truncate_log(&self) -> Result<(), sea_orm::DbErr> {
        self.writer.execute_unprepared("PRAGMA wal_checkpoint(TRUNCATE)").await.map(drop)
    }
}
