//! A hold on a job, present or past.

use sea_orm::entity::prelude::*;
use undertone_api::job::Holder;

use crate::column::EnumColumn;

/// A hold on a job, present or past.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "job_hold")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub dataset_id: Option<Uuid>,
    pub holder: EnumColumn<Holder, Entity>,
    pub by: String,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    #[sea_orm(column_type = "Text", nullable)]
    pub payload: Option<String>,
    pub signature: Option<String>,
    pub since: TimeDateTimeWithTimeZone,
    pub ended_at: Option<TimeDateTimeWithTimeZone>,
    pub ended_by: Option<String>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
