//! Leases: one row for each participant that a worker has ever leased; a new token ends the previous lease.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, string, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("lease")
                    .col(uuid("job_id"))
                    .col(uuid("dataset_id"))
                    .col(uuid("worker_id"))
                    .col(string("token"))
                    .col(big_integer("number"))
                    .col(timestamp_with_time_zone("granted_at"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .primary_key(Index::create().col("job_id").col("dataset_id"))
                    .foreign_key(ForeignKey::create().name("lease_job").from("lease", "job_id").to("job", "id"))
                    .to_owned(),
            )
            .await?;
        manager.create_index(Index::create().name("lease_token").table("lease").col("token").unique().to_owned()).await
    }
}
