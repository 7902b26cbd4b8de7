//! Holds of jobs, with origin, time and reason. Rows are ended, never removed.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    pk_uuid, string, string_null, text, text_null, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
    uuid_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("job_hold")
                    .col(pk_uuid("id"))
                    .col(uuid("job_id"))
                    .col(uuid_null("dataset_id"))
                    .col(string("holder"))
                    .col(string("by"))
                    .col(text("reason"))
                    .col(text_null("payload"))
                    .col(string_null("signature"))
                    .col(timestamp_with_time_zone("since"))
                    .col(timestamp_with_time_zone_null("ended_at"))
                    .col(string_null("ended_by"))
                    .foreign_key(ForeignKey::create().name("job_hold_job").from("job_hold", "job_id").to("job", "id"))
                    .to_owned(),
            )
            .await?;
        manager.create_index(Index::create().name("job_hold_of").table("job_hold").col("job_id").to_owned()).await
    }
}
