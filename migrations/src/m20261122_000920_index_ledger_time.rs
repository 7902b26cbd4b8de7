//! An index of all ledger rows by time, so that the newest of a consortium are found without reading the others.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let index = Index::create()
            .name("ledger_entry_at")
            .table("ledger_entry")
            .col("at")
            .col("sequence")
            .col("account_id")
            .to_owned();
        manager.create_index(index).await
    }
}
