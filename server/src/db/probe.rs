//! A write that changes nothing, for the health check.

use sea_orm::ConnectionTrait as _;

use super::Db;
use crate::error::Error;
use crate::fairness::WorkOwner;

/// Writes the newest migration's row as it is: a real transaction, without a table of its own.
const REWRITE: &str = "UPDATE seaql_migrations SET applied_at = applied_at \
                       WHERE version = (SELECT MAX(version) FROM seaql_migrations)";

impl Db {
    /// Commits one write that changes nothing.
    ///
    /// # Errors
    /// When the database cannot commit.
    pub(crate) async fn probe_write(&self) -> Result<(), Error> {
        let write = self.beside("probe", async |tx| {
            tx.execute_unprepared(REWRITE).await?;
            Ok(())
        });
        // Whoever asks for it, the server asks itself.
        WorkOwner::System.scope(write).await
    }

    /// Gives the space that SQLite's write-ahead log holds back to the disk, so that the next write has to allocate.
    ///
    /// # Errors
    /// When the database fails.
    #[cfg(test)]
    pub(crate) async fn truncate_log(&self) -> Result<(), sea_orm::DbErr> {
        self.writer.execute_unprepared("PRAGMA wal_checkpoint(TRUNCATE)").await.map(drop)
    }
}
