//! Audit findings: each site's signed statement, and the server's verdict on it.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{string, text, timestamp_with_time_zone, uuid};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("audit")
                    .col(uuid("job_id"))
                    .col(uuid("dataset_id"))
                    .col(string("digest"))
                    .col(text("payload"))
                    .col(string("signature"))
                    .col(text("assessment"))
                    .col(string("verdict"))
                    .col(timestamp_with_time_zone("received_at"))
                    .primary_key(Index::create().name("audit_pk").col("job_id").col("dataset_id"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("audit_participant")
                            .from("audit", ("job_id", "dataset_id"))
                            .to("participant", ("job_id", "dataset_id")),
                    )
                    .to_owned(),
            )
            .await?;
        append_only(manager, "audit").await
    }
}
