//! The total ε of the jobs that a standing limit approves automatically, and the limit that approved each participant.
//! Earlier limits have no total, and for earlier participants the limit is unknown.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{double_null, uuid_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = double_null("total_epsilon");
        manager.alter_table(Table::alter().table("approval_limit").add_column(column).to_owned()).await?;
        let column = uuid_null("limit_id");
        manager.alter_table(Table::alter().table("participant").add_column(column).to_owned()).await?;
        let index = Index::create().name("participant_by_limit").table("participant").col("limit_id").to_owned();
        manager.create_index(index).await
    }
}
