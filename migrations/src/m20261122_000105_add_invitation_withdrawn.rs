//! The time at which an invitation was withdrawn. Earlier ones never were.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::timestamp_with_time_zone_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = timestamp_with_time_zone_null("withdrawn_at");
        manager.alter_table(Table::alter().table("invitation").add_column(column).to_owned()).await
    }
}
