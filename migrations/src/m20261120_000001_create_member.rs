//! Members: people with an account.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{boolean, pk_uuid, string, string_uniq, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("member")
                    .col(pk_uuid("id"))
                    .col(string("name"))
                    .col(string_uniq("email"))
                    .col(string("password_hash"))
                    .col(boolean("operator"))
                    .col(timestamp_with_time_zone("created_at"))
                    .to_owned(),
            )
            .await
    }
}
