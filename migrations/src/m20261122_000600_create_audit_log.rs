//! The audit log: actor, action, place and time, with one hash chain for each place. Append-only.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, string, string_null, text, timestamp_with_time_zone, uuid, uuid_null};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `place_id` of the server is nil, so that it can be part of the key.
        manager
            .create_table(
                Table::create()
                    .table("audit_log")
                    .col(string("place"))
                    .col(uuid("place_id"))
                    .col(big_integer("number"))
                    .col(timestamp_with_time_zone("at"))
                    .col(string("by_hand"))
                    .col(uuid_null("by_id"))
                    .col(string("what"))
                    .col(string_null("subject_kind"))
                    .col(string_null("subject_id"))
                    .col(text("detail"))
                    .col(string("previous"))
                    .col(string("hash"))
                    .primary_key(Index::create().name("audit_log_pk").col("place").col("place_id").col("number"))
                    .to_owned(),
            )
            .await?;
        for (name, column) in
            [("audit_log_by", "by_id"), ("audit_log_what", "what"), ("audit_log_subject", "subject_id")]
        {
            let index =
                Index::create().name(name).table("audit_log").col("place_id").col(column).col("number").to_owned();
            manager.create_index(index).await?;
        }
        append_only(manager, "audit_log").await
    }
}
