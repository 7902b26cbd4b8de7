//! Certificates: what a job and all that it released cost, signed by the server once the job was over.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, string, text, timestamp_with_time_zone};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("certificate")
                    .col(pk_uuid("job_id"))
                    .col(string("digest"))
                    .col(text("payload"))
                    .col(string("signature"))
                    .col(timestamp_with_time_zone("issued_at"))
                    .foreign_key(
                        ForeignKey::create().name("certificate_job").from("certificate", "job_id").to("job", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        append_only(manager, "certificate").await
    }
}
