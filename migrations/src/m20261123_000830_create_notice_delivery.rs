//! Security notices to be sent by e-mail or to the webhook, until they are delivered or abandoned.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{integer, pk_uuid, string, text, timestamp_with_time_zone, uuid};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("notice_delivery")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("channel"))
                    .col(string("kind"))
                    .col(text("text"))
                    .col(timestamp_with_time_zone("at"))
                    .col(integer("attempts"))
                    .col(timestamp_with_time_zone("due_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("notice_delivery_member")
                            .from("notice_delivery", "member_id")
                            .to("member", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        let mut due = Index::create();
        due.name("notice_delivery_due").table("notice_delivery").col("due_at");
        manager.create_index(due).await
    }
}
