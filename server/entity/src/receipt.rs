//! A receipt as its site signed it. Append-only.

use sea_orm::entity::prelude::*;

/// A receipt as its site signed it. Append-only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "receipt")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub sequence: i64,
    pub digest: String,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    pub signature: String,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    pub series: String,
    pub round: i32,
    pub attempt: i32,
    pub received_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
