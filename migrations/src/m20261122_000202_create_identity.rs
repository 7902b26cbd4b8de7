//! Identities at a sign-in provider, each of one member.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{pk_uuid, string, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("identity")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("issuer"))
                    .col(string("subject"))
                    .col(timestamp_with_time_zone("linked_at"))
                    .foreign_key(
                        ForeignKey::create().name("identity_member").from("identity", "member_id").to("member", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("identity_once")
                    .table("identity")
                    .col("issuer")
                    .col("subject")
                    .unique()
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("identity_by_member").table("identity").col("member_id").to_owned())
            .await
    }
}
