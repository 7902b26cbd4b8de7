//! Datasets: the coarse facts that may be disclosed outside their site.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, integer, pk_uuid, string, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("dataset")
                    .col(pk_uuid("id"))
                    .col(uuid("organization_id"))
                    .col(uuid("worker_id"))
                    .col(uuid("lineage_id"))
                    .col(string("name"))
                    .col(string("visibility"))
                    .col(integer("inputs"))
                    .col(integer("classes"))
                    .col(big_integer("records"))
                    .col(big_integer("speakers"))
                    .col(big_integer("test_records"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("updated_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("dataset_organization")
                            .from("dataset", "organization_id")
                            .to("organization", "id"),
                    )
                    .foreign_key(
                        ForeignKey::create().name("dataset_worker").from("dataset", "worker_id").to("worker", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("dataset_name")
                    .table("dataset")
                    .col("organization_id")
                    .col("name")
                    .unique()
                    .to_owned(),
            )
            .await
    }
}
