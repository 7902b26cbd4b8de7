//! The deadline for answers to a proposed job, the end of its manifest, and the start of its present pause. For earlier
//! jobs only the sites have the end of the manifest.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, timestamp_with_time_zone_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["answer_by", "not_after", "paused_at"] {
            let column = timestamp_with_time_zone_null(column);
            manager.alter_table(Table::alter().table("job").add_column(column).to_owned()).await?;
        }
        // The total time that the job was paused, milliseconds.
        let column = big_integer("paused_for").default(0).to_owned();
        manager.alter_table(Table::alter().table("job").add_column(column).to_owned()).await
    }
}
