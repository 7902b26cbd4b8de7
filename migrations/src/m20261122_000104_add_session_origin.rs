//! The coarse origin of a session: its network and the browser's family. Unknown for earlier sessions.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::string;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // SQLite adds one column at a time.
        for name in ["network", "agent"] {
            let column = string(name).default("").to_owned();
            manager.alter_table(Table::alter().table("session").add_column(column).to_owned()).await?;
        }
        Ok(())
    }
}
