//! A draft of a job.

use sea_orm::entity::prelude::*;

use crate::column::JsonColumn;

/// A draft of a job.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "draft")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub consortium_id: Uuid,
    pub organization_id: Uuid,
    pub author_id: Uuid,
    pub author: String,
    pub title: String,
    pub kind: String,
    #[sea_orm(column_type = "Text")]
    pub spec: JsonColumn<serde_json::Value, Entity>,
    pub cloned_from: Option<Uuid>,
    pub version: i64,
    pub created_at: TimeDateTimeWithTimeZone,
    pub updated_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
