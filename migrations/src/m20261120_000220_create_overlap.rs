//! Declarations of a consortium's admins about people who may be in several organizations, with their times.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{integer, string, text, timestamp_with_time_zone, uuid};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("overlap")
                    .col(uuid("consortium_id"))
                    .col(integer("sequence"))
                    .col(text("overlap"))
                    .col(text("statement"))
                    .col(uuid("member_id"))
                    .col(string("attested_by"))
                    .col(timestamp_with_time_zone("attested_at"))
                    .primary_key(Index::create().col("consortium_id").col("sequence"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("overlap_consortium")
                            .from("overlap", "consortium_id")
                            .to("consortium", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        append_only(manager, "overlap").await
    }
}
