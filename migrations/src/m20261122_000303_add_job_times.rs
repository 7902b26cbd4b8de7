//! Until when a proposed job waits for answers, when its manifest ends, and since when a paused one is paused. Of jobs of
//! before only the sites hold the end of the manifest.

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
        // Milliseconds that it was paused, all in all.
        let column = big_integer("paused_for").default(0).to_owned();
        manager.alter_table(Table::alter().table("job").add_column(column).to_owned()).await
    }
}
