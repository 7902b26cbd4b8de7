//! The newest head of the log that each worker has verified and signed, for the workers of its peers.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, pk_uuid, text, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("head_observation")
                    .col(pk_uuid("worker_id"))
                    .col(big_integer("size"))
                    .col(text("payload"))
                    .col(text("signature"))
                    .col(timestamp_with_time_zone("observed_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("head_observation_worker")
                            .from("head_observation", "worker_id")
                            .to("worker", "id"),
                    )
                    .to_owned(),
            )
            .await
    }
}
