//! A job is charged to every limited unit of a dataset's lineage, so it has a reservation on each of these accounts.
//! `own` marks the reservation for the unit that the job protects; all earlier reservations are of this kind.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::boolean;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = boolean("own").default(true).to_owned();
        manager.alter_table(Table::alter().table("reservation").add_column(column).to_owned()).await?;
        manager.drop_index(Index::drop().name("reservation_of").table("reservation").to_owned()).await?;
        let index = Index::create()
            .name("reservation_of")
            .table("reservation")
            .col("job_id")
            .col("dataset_id")
            .col("account_id")
            .unique()
            .to_owned();
        manager.create_index(index).await
    }
}
