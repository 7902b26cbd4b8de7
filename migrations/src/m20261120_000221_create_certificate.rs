//! Certificates: the cost of a job and of all its releases, signed by the server after the end of the job.

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
