//! The events of workers' keys, by their positions in the signed log.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, string, timestamp_with_time_zone, uuid};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("key_event")
                    .col(big_integer("position").primary_key())
                    .col(uuid("worker_id"))
                    .col(uuid("organization_id"))
                    .col(big_integer("number"))
                    .col(string("event"))
                    .col(string("public_key"))
                    .col(timestamp_with_time_zone("at"))
                    .foreign_key(
                        ForeignKey::create().name("key_event_worker").from("key_event", "worker_id").to("worker", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        let index = Index::create()
            .name("key_event_of_worker")
            .table("key_event")
            .col("worker_id")
            .col("number")
            .unique()
            .to_owned();
        manager.create_index(index).await?;
        append_only(manager, "key_event").await
    }
}
