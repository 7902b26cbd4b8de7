//! A round of questions. Round 0 is that of the pools, and has a row once it is closed.

use sea_orm::entity::prelude::*;

/// A round of questions. Round 0 is that of the pools, and has a row once it is closed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "asking")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub round: i32,
    pub questions: i64,
    pub opened_at: TimeDateTimeWithTimeZone,
    pub deadline: TimeDateTimeWithTimeZone,
    pub closed_at: Option<TimeDateTimeWithTimeZone>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
