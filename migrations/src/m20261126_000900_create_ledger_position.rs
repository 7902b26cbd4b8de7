//! The newest position of each site's ledger, and the newest sighting of it by each peer, as the sites signed them.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, pk_uuid, text, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let of_worker = |table: &'static str, column: &'static str| {
            ForeignKey::create().name(format!("{table}_{column}")).from(table, column).to("worker", "id").to_owned()
        };
        manager
            .create_table(
                Table::create()
                    .table("ledger_position")
                    .col(pk_uuid("worker_id"))
                    .col(big_integer("receipts"))
                    .col(text("payload"))
                    .col(text("signature"))
                    .foreign_key(&mut of_worker("ledger_position", "worker_id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("ledger_sighting")
                    .col(uuid("observer_id"))
                    .col(uuid("subject_id"))
                    .col(text("payload"))
                    .col(text("signature"))
                    .col(timestamp_with_time_zone("observed_at"))
                    .primary_key(Index::create().col("observer_id").col("subject_id"))
                    .foreign_key(&mut of_worker("ledger_sighting", "observer_id"))
                    .foreign_key(&mut of_worker("ledger_sighting", "subject_id"))
                    .to_owned(),
            )
            .await
    }
}
