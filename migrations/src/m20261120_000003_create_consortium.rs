//! Consortia, and the organizations in them.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, string_uniq, text, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("consortium")
                    .col(pk_uuid("id"))
                    .col(string_uniq("name"))
                    .col(text("description"))
                    .col(timestamp_with_time_zone("created_at"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("membership")
                    .col(uuid("consortium_id"))
                    .col(uuid("organization_id"))
                    .col(timestamp_with_time_zone("joined_at"))
                    .primary_key(Index::create().col("consortium_id").col("organization_id"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("membership_consortium")
                            .from("membership", "consortium_id")
                            .to("consortium", "id"),
                    )
                    .foreign_key(
                        ForeignKey::create()
                            .name("membership_organization")
                            .from("membership", "organization_id")
                            .to("organization", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("membership_by_organization")
                    .table("membership")
                    .col("organization_id")
                    .to_owned(),
            )
            .await
    }
}
