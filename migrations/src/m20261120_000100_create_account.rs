//! Lifetime privacy accounts, one for each (organization, lineage, unit, adjacency, observer), and every limit ever set
//! on one.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, double, pk_uuid, string, text, timestamp_with_time_zone, uuid};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("account")
                    .col(pk_uuid("id"))
                    .col(uuid("organization_id"))
                    .col(uuid("lineage_id"))
                    .col(string("unit"))
                    .col(string("adjacency"))
                    .col(string("observer"))
                    .col(text("balance"))
                    .col(big_integer("in_the_clear"))
                    .col(big_integer("entries"))
                    .col(string("head"))
                    .col(timestamp_with_time_zone("created_at"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("account_key")
                    .table("account")
                    .col("organization_id")
                    .col("lineage_id")
                    .col("unit")
                    .col("adjacency")
                    .col("observer")
                    .unique()
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("budget")
                    .col(pk_uuid("id"))
                    .col(uuid("account_id"))
                    .col(double("epsilon"))
                    .col(double("delta"))
                    .col(text("limits"))
                    .col(uuid("set_by"))
                    .col(timestamp_with_time_zone("set_at"))
                    .foreign_key(
                        ForeignKey::create().name("budget_account").from("budget", "account_id").to("account", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        append_only(manager, "budget").await
    }
}
