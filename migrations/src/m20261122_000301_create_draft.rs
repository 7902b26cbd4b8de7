//! Drafts of jobs: not proposed yet.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, pk_uuid, string, text, timestamp_with_time_zone, uuid, uuid_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("draft")
                    .col(pk_uuid("id"))
                    .col(uuid("consortium_id"))
                    .col(uuid("organization_id"))
                    .col(uuid("author_id"))
                    .col(string("author"))
                    .col(string("title"))
                    .col(string("kind"))
                    .col(text("spec"))
                    .col(uuid_null("cloned_from"))
                    .col(big_integer("version"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("updated_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("draft_consortium")
                            .from("draft", "consortium_id")
                            .to("consortium", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        let index =
            Index::create().name("draft_of").table("draft").col("consortium_id").col("organization_id").to_owned();
        manager.create_index(index).await
    }
}
