//! Stewards' standing limits within which jobs are approved automatically. Rows are withdrawn, never removed.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    double, pk_uuid, string, string_null, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("approval_limit")
                    .col(pk_uuid("id"))
                    .col(uuid("dataset_id"))
                    .col(double("epsilon"))
                    .col(string("kinds"))
                    .col(timestamp_with_time_zone("until"))
                    .col(uuid("member_id"))
                    .col(string("set_by"))
                    .col(timestamp_with_time_zone("set_at"))
                    .col(timestamp_with_time_zone_null("withdrawn_at"))
                    .col(string_null("withdrawn_by"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("approval_limit_dataset")
                            .from("approval_limit", "dataset_id")
                            .to("dataset", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        let index = Index::create().name("approval_limit_of").table("approval_limit").col("dataset_id").to_owned();
        manager.create_index(index).await
    }
}
