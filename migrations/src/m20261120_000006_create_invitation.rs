//! One-time links. Only the hash of a link's secret is stored.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    pk_uuid, string, string_uniq, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("invitation")
                    .col(pk_uuid("id"))
                    .col(string_uniq("secret_hash"))
                    .col(string("purpose"))
                    .col(uuid_null("scope_id"))
                    .col(text("roles"))
                    .col(string("label"))
                    .col(uuid_null("invited_by"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .col(timestamp_with_time_zone_null("used_at"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("invitation_by_scope")
                    .table("invitation")
                    .col("purpose")
                    .col("scope_id")
                    .to_owned(),
            )
            .await
    }
}
