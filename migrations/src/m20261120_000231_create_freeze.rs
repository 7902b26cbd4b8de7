//! Lineages that an audit has frozen, and their releases with the responsible person: the last row of a lineage is its
//! state.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{boolean, integer, string, text, timestamp_with_time_zone, uuid};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("account_freeze")
                    .col(uuid("organization_id"))
                    .col(uuid("lineage_id"))
                    .col(integer("number"))
                    .col(uuid("dataset_id"))
                    .col(uuid("job_id"))
                    .col(boolean("frozen"))
                    .col(text("reason"))
                    .col(string("by"))
                    .col(timestamp_with_time_zone("at"))
                    .primary_key(
                        Index::create()
                            .name("account_freeze_pk")
                            .col("organization_id")
                            .col("lineage_id")
                            .col("number"),
                    )
                    .foreign_key(
                        ForeignKey::create()
                            .name("account_freeze_job")
                            .from("account_freeze", "job_id")
                            .to("job", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        append_only(manager, "account_freeze").await
    }
}
