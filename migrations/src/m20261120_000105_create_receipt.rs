//! Receipts as signed by the sites: one unbroken chain for each worker.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, integer, string, text, timestamp_with_time_zone, uuid};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("receipt")
                    .col(uuid("worker_id"))
                    .col(big_integer("sequence"))
                    .col(string("digest"))
                    .col(text("payload"))
                    .col(string("signature"))
                    .col(uuid("job_id"))
                    .col(uuid("dataset_id"))
                    .col(string("series"))
                    .col(integer("round"))
                    .col(integer("attempt"))
                    .col(timestamp_with_time_zone("received_at"))
                    .primary_key(Index::create().col("worker_id").col("sequence"))
                    .foreign_key(ForeignKey::create().name("receipt_job").from("receipt", "job_id").to("job", "id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("receipt_digest").table("receipt").col("digest").unique().to_owned())
            .await?;
        append_only(manager, "receipt").await
    }
}
