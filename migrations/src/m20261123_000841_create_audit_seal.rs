//! The positions of audit entries in the signed log, and the entries that await a position; existing entries are the
//! first.
//!
//! `audit_seal` is not append-only: an entry and its salt can be erased together, and the leaf remains by its hash.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, string, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("audit_seal")
                    .col(big_integer("position").primary_key())
                    .col(string("place"))
                    .col(uuid("place_id"))
                    .col(big_integer("number"))
                    .col(string("salt"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("audit_seal_entry")
                    .table("audit_seal")
                    .col("place")
                    .col("place_id")
                    .col("number")
                    .unique()
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("audit_pending")
                    .col(string("place"))
                    .col(uuid("place_id"))
                    .col(big_integer("number"))
                    .primary_key(Index::create().name("audit_pending_pk").col("place").col("place_id").col("number"))
                    .to_owned(),
            )
            .await?;
        let present =
            "INSERT INTO audit_pending (place, place_id, number) SELECT place, place_id, number FROM audit_log";
        manager.get_connection().execute_unprepared(present).await.map(|_| ())
    }
}
