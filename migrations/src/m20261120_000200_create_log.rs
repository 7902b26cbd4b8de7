//! The transparency log: one Merkle tree with a leaf for every ledger entry, account and limit; the server's signed
//! heads of it; the server's countersignatures of receipts. All three tables are append-only.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, string, text, timestamp_with_time_zone, uuid, uuid_null,
};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `nodes`: hex of the roots of all complete subtrees that end with this leaf, the leaf's own hash first.
        manager
            .create_table(
                Table::create()
                    .table("log_leaf")
                    .col(big_integer("position").primary_key())
                    .col(string("kind"))
                    .col(uuid("account_id"))
                    .col(big_integer_null("sequence"))
                    .col(uuid_null("budget_id"))
                    .col(text("nodes"))
                    .to_owned(),
            )
            .await?;
        for (name, column) in [("log_leaf_entry", "sequence"), ("log_leaf_limit", "budget_id")] {
            let index = Index::create().name(name).table("log_leaf").col("account_id").col(column).unique().to_owned();
            manager.create_index(index).await?;
        }
        append_only(manager, "log_leaf").await?;
        manager
            .create_table(
                Table::create()
                    .table("log_head")
                    .col(big_integer("size").primary_key())
                    .col(string("root"))
                    .col(string("server"))
                    .col(text("payload"))
                    .col(string("signature"))
                    .col(timestamp_with_time_zone("at"))
                    .to_owned(),
            )
            .await?;
        append_only(manager, "log_head").await?;
        manager
            .create_table(
                Table::create()
                    .table("countersignature")
                    .col(uuid("worker_id"))
                    .col(big_integer("sequence"))
                    .col(string("receipt"))
                    .col(big_integer("position"))
                    .col(text("payload"))
                    .col(string("signature"))
                    .primary_key(Index::create().col("worker_id").col("sequence"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("countersignature_receipt")
                            .from("countersignature", ("worker_id", "sequence"))
                            .to("receipt", ("worker_id", "sequence")),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("countersignature_position")
                    .table("countersignature")
                    .col("position")
                    .unique()
                    .to_owned(),
            )
            .await?;
        append_only(manager, "countersignature").await
    }
}
