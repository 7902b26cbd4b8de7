//! Rounds of averaging and their submissions; the vectors themselves are objects, named by digest.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, boolean, integer, string, string_null, timestamp_with_time_zone,
    timestamp_with_time_zone_null, uuid,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("round")
                    .col(uuid("job_id"))
                    .col(string("series"))
                    .col(integer("round"))
                    .col(timestamp_with_time_zone("opened_at"))
                    .col(timestamp_with_time_zone("deadline"))
                    .col(timestamp_with_time_zone_null("closed_at"))
                    .col(integer("contributors"))
                    .col(big_integer_null("length"))
                    .col(string_null("digest"))
                    .col(string_null("object"))
                    .primary_key(Index::create().col("job_id").col("series").col("round"))
                    .foreign_key(ForeignKey::create().name("round_job").from("round", "job_id").to("job", "id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("submission")
                    .col(uuid("job_id"))
                    .col(string("series"))
                    .col(integer("round"))
                    .col(uuid("dataset_id"))
                    .col(string("digest"))
                    .col(string("object"))
                    .col(big_integer("length"))
                    .col(boolean("counted"))
                    .col(timestamp_with_time_zone("accepted_at"))
                    .primary_key(Index::create().col("job_id").col("series").col("round").col("dataset_id"))
                    .foreign_key(
                        ForeignKey::create().name("submission_job").from("submission", "job_id").to("job", "id"),
                    )
                    .to_owned(),
            )
            .await
    }
}
