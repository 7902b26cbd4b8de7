//! The roles of members: `scope` is `consortium` or `organization`, `scope_id` its id.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{string, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("role")
                    .col(uuid("member_id"))
                    .col(string("scope"))
                    .col(uuid("scope_id"))
                    .col(string("role"))
                    .primary_key(Index::create().col("member_id").col("scope").col("scope_id").col("role"))
                    .foreign_key(ForeignKey::create().name("role_member").from("role", "member_id").to("member", "id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("role_by_scope").table("role").col("scope").col("scope_id").to_owned())
            .await
    }
}
