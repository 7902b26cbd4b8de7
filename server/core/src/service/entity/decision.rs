//! An answer to a proposed job: a steward's or a site's. Append-only.

use sea_orm::entity::prelude::*;

/// An answer to a proposed job: a steward's or a site's. Append-only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "decision")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    pub source: String,
    pub approve: bool,
    pub by: String,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    #[sea_orm(column_type = "Text", nullable)]
    pub payload: Option<String>,
    pub signature: Option<String>,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
