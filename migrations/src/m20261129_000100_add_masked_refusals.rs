//! The sites that take no further part in a masked round: a set, as bits.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::big_integer_null;

/// The table that the step changes.
const TABLE: &str = "masked_round";

/// The step.
#[derive(Debug, DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// Both databases roll back this change, so an interrupted step can run again.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table(TABLE).add_column(big_integer_null("refused")).to_owned()).await
    }
}
