//! Sessions, each with its only valid refresh token. Only hashes of tokens are stored.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    pk_uuid, string, string_null, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("session")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("current"))
                    .col(string_null("previous"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("rotated_at"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .col(timestamp_with_time_zone_null("ended_at"))
                    .foreign_key(
                        ForeignKey::create().name("session_member").from("session", "member_id").to("member", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("session_by_member").table("session").col("member_id").to_owned())
            .await
    }
}
