//! Changes of stewards' credentials, for the sites of their organizations. Rows are never changed.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, text, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("credential_notice")
                    .col(pk_uuid("id"))
                    .col(uuid("organization_id"))
                    .col(uuid("member_id"))
                    .col(text("text"))
                    .col(timestamp_with_time_zone("at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("credential_notice_organization")
                            .from("credential_notice", "organization_id")
                            .to("organization", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        let index = Index::create()
            .name("credential_notice_by_organization")
            .table("credential_notice")
            .col("organization_id")
            .col("id")
            .to_owned();
        manager.create_index(index).await
    }
}
