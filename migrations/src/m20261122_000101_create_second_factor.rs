//! Second factors of members (RFC 6238), their recovery codes, and incomplete sign-ins that require a code. Secrets are
//! stored encrypted, codes and intermediate tokens as hashes.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, pk_uuid, string, string_uniq, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let of_member = |name: &str, table: &'static str| {
            ForeignKey::create().name(name).from(table, "member_id").to("member", "id").to_owned()
        };
        manager
            .create_table(
                Table::create()
                    .table("second_factor")
                    .col(pk_uuid("member_id"))
                    .col(string("secret"))
                    .col(big_integer("last_step"))
                    .col(timestamp_with_time_zone("offered_at"))
                    .col(timestamp_with_time_zone_null("confirmed_at"))
                    .foreign_key(&mut of_member("second_factor_member", "second_factor"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("recovery_code")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("code_hash"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone_null("used_at"))
                    .foreign_key(&mut of_member("recovery_code_member", "recovery_code"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create().name("recovery_code_by_member").table("recovery_code").col("member_id").to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("half_session")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string_uniq("secret_hash"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .foreign_key(&mut of_member("half_session_member", "half_session"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create().name("half_session_by_member").table("half_session").col("member_id").to_owned(),
            )
            .await
    }
}
