//! A steward's standing approval of jobs within a limit.

use sea_orm::entity::prelude::*;

use crate::column::JsonColumn;

/// A steward's standing approval of jobs within a limit.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "approval_limit")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub dataset_id: Uuid,
    pub epsilon: f64,
    pub total_epsilon: Option<f64>,
    pub kinds: JsonColumn<Vec<String>, Entity>,
    pub until: TimeDateTimeWithTimeZone,
    pub member_id: Uuid,
    pub set_by: String,
    pub set_at: TimeDateTimeWithTimeZone,
    pub withdrawn_at: Option<TimeDateTimeWithTimeZone>,
    pub withdrawn_by: Option<String>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
