//! The content of a dataset: speech, as for all earlier ones, or queries.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::string;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = string("content").default("speech").to_owned();
        manager.alter_table(Table::alter().table("dataset").add_column(column).to_owned()).await
    }
}
