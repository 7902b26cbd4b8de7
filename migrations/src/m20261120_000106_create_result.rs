//! Results of jobs: measurements on public data, and files.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, double, integer, pk_uuid, string, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("measurement")
                    .col(uuid("job_id"))
                    .col(string("series"))
                    .col(integer("round"))
                    .col(string("test"))
                    .col(big_integer("frames"))
                    .col(double("accuracy"))
                    .col(double("loss"))
                    .col(timestamp_with_time_zone("at"))
                    .primary_key(Index::create().col("job_id").col("series").col("round").col("test"))
                    .foreign_key(
                        ForeignKey::create().name("measurement_job").from("measurement", "job_id").to("job", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("artifact")
                    .col(pk_uuid("id"))
                    .col(uuid("job_id"))
                    .col(string("name"))
                    .col(big_integer("size"))
                    .col(string("digest"))
                    .col(timestamp_with_time_zone("created_at"))
                    .foreign_key(ForeignKey::create().name("artifact_job").from("artifact", "job_id").to("job", "id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create().name("artifact_name").table("artifact").col("job_id").col("name").unique().to_owned(),
            )
            .await
    }
}
