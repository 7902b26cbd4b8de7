//! Stewards' public keys for approvals, as listed by their owners. A site accepts only keys pinned at the site.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, string, text, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("approval_key")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("label"))
                    .col(text("key"))
                    .col(string("fingerprint"))
                    .col(timestamp_with_time_zone("created_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("approval_key_member")
                            .from("approval_key", "member_id")
                            .to("member", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create().name("approval_key_by_member").table("approval_key").col("member_id").to_owned(),
            )
            .await
    }
}
