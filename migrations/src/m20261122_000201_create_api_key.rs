//! Keys with which programs act for a member. Only their hashes are stored.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("api_key")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("name"))
                    .col(text("scopes"))
                    .col(string("secret_hash"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .col(timestamp_with_time_zone_null("last_used_at"))
                    .col(timestamp_with_time_zone_null("revoked_at"))
                    .foreign_key(
                        ForeignKey::create().name("api_key_member").from("api_key", "member_id").to("member", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("api_key_by_member").table("api_key").col("member_id").to_owned())
            .await
    }
}
