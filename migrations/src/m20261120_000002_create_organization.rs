//! Owners of datasets and workers.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, string_uniq, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("organization")
                    .col(pk_uuid("id"))
                    .col(string_uniq("name"))
                    .col(timestamp_with_time_zone("created_at"))
                    .to_owned(),
            )
            .await
    }
}
