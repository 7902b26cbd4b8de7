//! Failed or undecided sign-in attempts in windows of time, by a hash of their account or origin. All replicas share
//! the counts.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{integer, string, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("attempt")
                    .col(string("key_hash").primary_key())
                    .col(timestamp_with_time_zone("began_at"))
                    .col(integer("count"))
                    .to_owned(),
            )
            .await?;
        manager.create_index(Index::create().name("attempt_by_time").table("attempt").col("began_at").to_owned()).await
    }
}
