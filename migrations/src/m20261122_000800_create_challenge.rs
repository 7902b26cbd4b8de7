//! Challenges that await a worker's answer, so that any replica can check it.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, string, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("challenge")
                    .col(pk_uuid("worker_id"))
                    .col(string("challenge"))
                    .col(timestamp_with_time_zone("asked_at"))
                    .foreign_key(
                        ForeignKey::create().name("challenge_worker").from("challenge", "worker_id").to("worker", "id"),
                    )
                    .to_owned(),
            )
            .await
    }
}
