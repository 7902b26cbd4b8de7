//! A freeze of a lineage, or its end. Append-only: the last row of a lineage is its present state.

use sea_orm::entity::prelude::*;
use undertone_api::freeze::Freeze;

/// A freeze of a lineage, or its end. Append-only: the last row of a lineage is its present state.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "account_freeze")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub organization_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub lineage_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i32,
    pub dataset_id: Uuid,
    pub job_id: Uuid,
    pub frozen: bool,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    pub by: String,
    pub at: TimeDateTimeWithTimeZone,
}

impl From<Model> for Freeze {
    fn from(row: Model) -> Self {
        Self {
            dataset: row.dataset_id.into(),
            number: row.number as u32,
            frozen: row.frozen,
            job: row.job_id.into(),
            reason: row.reason,
            by: row.by,
            at: row.at,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
