//! The ledger: reservations, payments and settlements, hash-chained by account; and the reservations as sums of these
//! rows.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, boolean, integer_null, pk_uuid, string, string_null, text, timestamp_with_time_zone, uuid,
};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("ledger_entry")
                    .col(uuid("account_id"))
                    .col(big_integer("sequence"))
                    .col(string("kind"))
                    .col(uuid("job_id"))
                    .col(uuid("dataset_id"))
                    .col(string_null("series"))
                    .col(integer_null("round"))
                    .col(integer_null("attempt"))
                    .col(text("event"))
                    .col(big_integer("count"))
                    .col(string("evaluator"))
                    .col(string_null("receipt"))
                    .col(string("previous"))
                    .col(string("hash"))
                    .col(timestamp_with_time_zone("at"))
                    .primary_key(Index::create().col("account_id").col("sequence"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("ledger_entry_account")
                            .from("ledger_entry", "account_id")
                            .to("account", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("ledger_entry_job")
                    .table("ledger_entry")
                    .col("job_id")
                    .col("dataset_id")
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create().name("ledger_entry_receipt").table("ledger_entry").col("receipt").unique().to_owned(),
            )
            .await?;
        append_only(manager, "ledger_entry").await?;
        manager
            .create_table(
                Table::create()
                    .table("reservation")
                    .col(pk_uuid("id"))
                    .col(uuid("account_id"))
                    .col(uuid("job_id"))
                    .col(uuid("dataset_id"))
                    .col(text("event"))
                    .col(text("per_release"))
                    .col(boolean("in_the_clear"))
                    .col(big_integer("releases"))
                    .col(big_integer("committed"))
                    .col(boolean("settled"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("reservation_account")
                            .from("reservation", "account_id")
                            .to("account", "id"),
                    )
                    .foreign_key(
                        ForeignKey::create().name("reservation_job").from("reservation", "job_id").to("job", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("reservation_of")
                    .table("reservation")
                    .col("job_id")
                    .col("dataset_id")
                    .unique()
                    .to_owned(),
            )
            .await
    }
}
