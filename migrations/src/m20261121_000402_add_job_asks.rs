//! Whether a job asks people questions. Earlier jobs do not.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::boolean;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = boolean("asks").default(false).to_owned();
        manager.alter_table(Table::alter().table("job").add_column(column).to_owned()).await
    }
}
