//! The number of users of a dataset, where it has a column of users, and the units that can be protected in its data.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer_null, string_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // One column for each statement: SQLite accepts no more.
        for column in [big_integer_null("users"), string_null("units")] {
            manager.alter_table(Table::alter().table("dataset").add_column(column).to_owned()).await?;
        }
        Ok(())
    }
}
