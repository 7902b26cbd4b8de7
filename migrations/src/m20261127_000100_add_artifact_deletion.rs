//! Deletion of job files: when, by whom and why. The row stays, with the digest; and an index of digests.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{text_null, timestamp_with_time_zone_null, uuid_null};

/// The table that the step changes.
const TABLE: &str = "artifact";

/// The step.
#[derive(Debug, DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// Both databases roll back these changes, so an interrupted step can run again.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns =
            [timestamp_with_time_zone_null("deleted_at"), uuid_null("deleted_by"), text_null("deletion_reason")];
        for column in columns {
            manager.alter_table(Table::alter().table(TABLE).add_column(column).to_owned()).await?;
        }
        manager.create_index(Index::create().name("artifact_digest").table(TABLE).col("digest").to_owned()).await
    }
}
