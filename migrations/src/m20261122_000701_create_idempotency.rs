//! Requests with an idempotency key, so that none is executed twice: their digests and encrypted answers, for a day.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{binary_null, string, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("idempotency")
                    .col(uuid("member_id"))
                    // SHA-256 of the key and of the request, hex.
                    .col(string("key"))
                    .col(string("request"))
                    .col(binary_null("answer"))
                    .col(timestamp_with_time_zone("at"))
                    .primary_key(Index::create().name("idempotency_pk").col("member_id").col("key"))
                    .to_owned(),
            )
            .await?;
        manager.create_index(Index::create().name("idempotency_by_age").table("idempotency").col("at").to_owned()).await
    }
}
