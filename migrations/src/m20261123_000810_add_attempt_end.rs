//! The end of each window in which sign-in attempts are counted: windows have different lengths. The table is
//! recreated, so the currently open windows of 15 minutes start again.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{integer, string, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("attempt").to_owned()).await?;
        manager
            .create_table(
                Table::create()
                    .table("attempt")
                    .col(string("key_hash").primary_key())
                    .col(timestamp_with_time_zone("began_at"))
                    .col(timestamp_with_time_zone("ends_at"))
                    .col(integer("count"))
                    .to_owned(),
            )
            .await?;
        manager.create_index(Index::create().name("attempt_by_end").table("attempt").col("ends_at").to_owned()).await
    }
}
