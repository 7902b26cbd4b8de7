//! Changes of sites' keys, signed by the old and the new key. They permanently identify the key of every receipt.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, integer, string, string_uniq, text, timestamp_with_time_zone, uuid};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("worker_key")
                    .col(uuid("worker_id"))
                    .col(integer("number"))
                    .col(string_uniq("public_key"))
                    .col(big_integer("receipts"))
                    .col(text("payload"))
                    .col(string("by_old"))
                    .col(string("by_new"))
                    .col(timestamp_with_time_zone("recorded_at"))
                    .primary_key(Index::create().col("worker_id").col("number"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("worker_key_worker")
                            .from("worker_key", "worker_id")
                            .to("worker", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        append_only(manager, "worker_key").await
    }
}
