//! A round of averaging.

use sea_orm::entity::prelude::*;

/// A round of averaging.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "round")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub series: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub round: i32,
    pub opened_at: TimeDateTimeWithTimeZone,
    pub deadline: TimeDateTimeWithTimeZone,
    pub closed_at: Option<TimeDateTimeWithTimeZone>,
    pub contributors: i32,
    pub length: Option<i64>,
    pub digest: Option<String>,
    pub object: Option<String>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
