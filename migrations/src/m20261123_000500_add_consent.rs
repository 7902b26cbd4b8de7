//! The approval rule of a dataset's site, as stated by the site, and the form of the consent to each part of a job.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::text_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in [("dataset", "approval"), ("participant", "consent")] {
            manager.alter_table(Table::alter().table(table).add_column(text_null(column)).to_owned()).await?;
        }
        Ok(())
    }
}
