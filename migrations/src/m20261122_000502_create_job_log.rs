//! The log of job parts, in a closed vocabulary. It is not evidence: the oldest lines of a part are removed when there
//! are many.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, string, text, timestamp_with_time_zone, uuid, uuid_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("job_log")
                    .col(uuid("job_id"))
                    .col(big_integer("number"))
                    .col(uuid_null("dataset_id"))
                    .col(big_integer_null("sequence"))
                    .col(string("level"))
                    .col(text("event"))
                    .col(big_integer_null("skew_seconds"))
                    .col(timestamp_with_time_zone("at"))
                    .primary_key(Index::create().name("job_log_pk").col("job_id").col("number"))
                    .foreign_key(ForeignKey::create().name("job_log_job").from("job_log", "job_id").to("job", "id"))
                    .to_owned(),
            )
            .await?;
        let mut part = Index::create();
        part.name("job_log_part").table("job_log").col("job_id").col("dataset_id").col("number");
        manager.create_index(part).await
    }
}
