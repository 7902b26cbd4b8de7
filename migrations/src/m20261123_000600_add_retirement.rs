//! Retirement of workers, members, organizations and accounts; replacement of workers; the time of a session's last
//! proof of identity; and the confirmation of members' e-mail addresses.
//!
//! `retired_at` is set while a retirement is in force: each call reads it. The table `retirement` has one row for each
//! act, with the reason and the end. Rows are never deleted.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid, uuid_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // SQLite adds one column at a time.
        let columns = [
            ("worker", timestamp_with_time_zone_null("retired_at")),
            ("worker", uuid_null("replaces")),
            ("member", timestamp_with_time_zone_null("retired_at")),
            ("member", timestamp_with_time_zone_null("address_confirmed_at")),
            ("membership", timestamp_with_time_zone_null("retired_at")),
            ("session", timestamp_with_time_zone_null("proven_at")),
            ("enrolment", uuid_null("replaces")),
        ];
        for (table, column) in columns {
            manager.alter_table(Table::alter().table(table).add_column(column).to_owned()).await?;
        }
        manager
            .create_table(
                Table::create()
                    .table("retirement")
                    .col(pk_uuid("id"))
                    .col(string("kind"))
                    .col(uuid("subject_id"))
                    // The organization of a member, the consortium of an organization.
                    .col(uuid_null("scope_id"))
                    .col(string("authority"))
                    .col(text("reason"))
                    // The roles that a restoration returns, JSON.
                    .col(text("roles"))
                    .col(timestamp_with_time_zone("retired_at"))
                    .col(uuid("retired_by"))
                    .col(timestamp_with_time_zone_null("restored_at"))
                    .col(uuid_null("restored_by"))
                    .col(text("restored_reason").default("").to_owned())
                    .to_owned(),
            )
            .await?;
        let index = Index::create()
            .name("retirement_by_subject")
            .table("retirement")
            .col("subject_id")
            .col("scope_id")
            .col("id")
            .to_owned();
        manager.create_index(index).await
    }
}
