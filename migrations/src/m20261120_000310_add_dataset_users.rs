//! How many users a dataset has, where its owner's id column names some, and which units its data keep apart.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer_null, string_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // One column a statement: SQLite takes no more.
        for column in [big_integer_null("users"), string_null("units")] {
            manager.alter_table(Table::alter().table("dataset").add_column(column).to_owned()).await?;
        }
        Ok(())
    }
}
