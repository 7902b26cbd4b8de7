//! Passkeys with which members sign in: public keys; and the answered challenges, until they expire.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("passkey")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("label"))
                    .col(string("algorithm"))
                    .col(text("public_key"))
                    .col(text("credential"))
                    .col(string("credential_hash"))
                    .col(big_integer("counter"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone_null("last_used_at"))
                    .foreign_key(
                        ForeignKey::create().name("passkey_member").from("passkey", "member_id").to("member", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        let mut by_member = Index::create();
        by_member.name("passkey_by_member").table("passkey").col("member_id");
        manager.create_index(by_member).await?;
        // The id of a credential may be too long for an index.
        let mut once = Index::create();
        once.name("passkey_once").table("passkey").col("credential_hash").unique();
        manager.create_index(once).await?;
        manager
            .create_table(
                Table::create()
                    .table("passkey_answer")
                    .col(string("nonce").primary_key())
                    .col(timestamp_with_time_zone("expires_at"))
                    .to_owned(),
            )
            .await
    }
}
