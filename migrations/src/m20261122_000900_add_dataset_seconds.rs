//! The length of a dataset's recordings, where they are for transcription.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::big_integer_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = big_integer_null("seconds");
        manager.alter_table(Table::alter().table("dataset").add_column(column).to_owned()).await
    }
}
