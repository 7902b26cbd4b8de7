//! A dataset: the coarse facts.

use sea_orm::entity::prelude::*;

/// A dataset: the coarse facts.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "dataset")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub organization_id: Uuid,
    pub worker_id: Uuid,
    pub lineage_id: Uuid,
    pub name: String,
    pub visibility: String,
    pub inputs: i32,
    pub classes: i32,
    pub records: i64,
    pub speakers: i64,
    pub test_records: i64,
    pub created_at: TimeDateTimeWithTimeZone,
    pub updated_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
