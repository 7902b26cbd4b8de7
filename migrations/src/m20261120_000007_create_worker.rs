//! Worker daemons, and the one-time tokens for their enrolment.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    pk_uuid, string, string_uniq, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("worker")
                    .col(pk_uuid("id"))
                    .col(uuid("organization_id"))
                    .col(string("name"))
                    .col(string_uniq("public_key"))
                    .col(string("version"))
                    .col(text("kinds"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone_null("last_seen_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("worker_organization")
                            .from("worker", "organization_id")
                            .to("organization", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create().name("worker_by_organization").table("worker").col("organization_id").to_owned(),
            )
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("enrolment")
                    .col(pk_uuid("id"))
                    .col(uuid("organization_id"))
                    .col(string("name"))
                    .col(string_uniq("secret_hash"))
                    .col(uuid("created_by"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .col(timestamp_with_time_zone_null("used_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("enrolment_organization")
                            .from("enrolment", "organization_id")
                            .to("organization", "id"),
                    )
                    .to_owned(),
            )
            .await
    }
}
