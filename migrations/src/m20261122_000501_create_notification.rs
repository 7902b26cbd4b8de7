//! Notifications of members, and their opt-outs. `key` identifies the cause of a notification, so that each cause
//! produces one notification, however often and by whichever replica it is detected.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid, uuid_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

fn of_member(name: &str, table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create().name(name).from(table, "member_id").to("member", "id").to_owned()
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("notification")
                    .col(pk_uuid("id"))
                    .col(uuid("member_id"))
                    .col(string("kind"))
                    .col(string("key"))
                    .col(text("text"))
                    .col(uuid_null("consortium_id"))
                    .col(uuid_null("job_id"))
                    .col(uuid_null("dataset_id"))
                    .col(uuid_null("organization_id"))
                    .col(timestamp_with_time_zone("at"))
                    .col(timestamp_with_time_zone_null("read_at"))
                    .foreign_key(&mut of_member("notification_member", "notification"))
                    .to_owned(),
            )
            .await?;
        let mut once = Index::create();
        once.name("notification_once").table("notification").col("member_id").col("key").unique();
        manager.create_index(once).await?;
        let mut unread = Index::create();
        unread.name("notification_unread").table("notification").col("member_id").col("read_at");
        manager.create_index(unread).await?;
        manager
            .create_table(
                Table::create()
                    .table("notification_switch")
                    .col(uuid("member_id"))
                    .col(string("kind"))
                    .primary_key(Index::create().name("notification_switch_pk").col("member_id").col("kind"))
                    .foreign_key(&mut of_member("notification_switch_member", "notification_switch"))
                    .to_owned(),
            )
            .await
    }
}
