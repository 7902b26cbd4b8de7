//! Restorations of the server, the workers that have reconciled with it since, and the workers that were written off.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, pk_uuid, string, string_null, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("restoration")
                    .col(big_integer("position").primary_key())
                    .col(string("digest").unique_key())
                    .col(text("payload"))
                    .col(string("signature"))
                    .col(timestamp_with_time_zone("at"))
                    .to_owned(),
            )
            .await?;
        append_only(manager, "restoration").await?;
        // `restoration` is the position of the statement.
        manager
            .create_table(
                Table::create()
                    .table("reconciliation")
                    .col(big_integer("restoration"))
                    .col(uuid("worker_id"))
                    .col(big_integer("receipts"))
                    .col(timestamp_with_time_zone_null("finished_at"))
                    .primary_key(Index::create().name("reconciliation_pk").col("restoration").col("worker_id"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("reconciliation_restoration")
                            .from("reconciliation", "restoration")
                            .to("restoration", "position"),
                    )
                    .foreign_key(
                        ForeignKey::create()
                            .name("reconciliation_worker")
                            .from("reconciliation", "worker_id")
                            .to("worker", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("write_off")
                    .col(pk_uuid("id"))
                    .col(uuid("worker_id"))
                    .col(text("reason"))
                    .col(uuid("written_off_by"))
                    .col(timestamp_with_time_zone("written_off_at"))
                    .col(timestamp_with_time_zone_null("returned_at"))
                    .col(string_null("returned_head"))
                    .foreign_key(
                        ForeignKey::create().name("write_off_worker").from("write_off", "worker_id").to("worker", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("write_off_of_worker").table("write_off").col("worker_id").to_owned())
            .await
    }
}
