//! The Gaussian certificate of a reservation, in its row of the ledger.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::text_null;

/// Adds the column; earlier rows have no certificate.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let statement = Table::alter().table("ledger_entry").add_column(text_null("certificate")).to_owned();
        manager.alter_table(statement).await
    }
}
