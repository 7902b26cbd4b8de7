//! A chosen question. Append-only.

use sea_orm::entity::prelude::*;

/// A chosen question. Append-only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "question")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    pub round: i32,
    /// Its place in the round's queue, from 0.
    pub place: i32,
    pub uncertainty: f64,
    #[sea_orm(column_type = "Text")]
    pub text: String,
    pub count: Option<i64>,
    pub chosen_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
