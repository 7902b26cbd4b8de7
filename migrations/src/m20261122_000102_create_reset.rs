//! One-time links with which members set a new password. Only the hash of a link's secret is stored.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    boolean, pk_uuid, string_uniq, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("reset")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string_uniq("secret_hash"))
                    .col(boolean("clears_factor"))
                    .col(uuid("created_by"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .col(timestamp_with_time_zone_null("used_at"))
                    .foreign_key(
                        ForeignKey::create().name("reset_member").from("reset", "member_id").to("member", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager.create_index(Index::create().name("reset_by_member").table("reset").col("member_id").to_owned()).await
    }
}
