//! The newest head of the log that a worker has verified and signed.

use sea_orm::entity::prelude::*;

/// The newest head of the log that a worker has verified and signed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "head_observation")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: Uuid,
    pub size: i64,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    #[sea_orm(column_type = "Text")]
    pub signature: String,
    pub observed_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
