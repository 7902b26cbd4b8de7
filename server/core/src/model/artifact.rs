//! A stored file of a job.

use sea_orm::entity::prelude::*;

/// A stored file of a job.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "artifact")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub name: String,
    pub size: i64,
    pub digest: String,
    pub created_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
