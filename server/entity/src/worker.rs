//! A worker daemon.

use sea_orm::entity::prelude::*;

use crate::column::JsonColumn;

/// A worker daemon.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "worker")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub organization_id: Uuid,
    pub name: String,
    pub public_key: String,
    pub version: String,
    #[sea_orm(column_type = "Text")]
    pub kinds: JsonColumn<Vec<String>, Entity>,
    pub created_at: TimeDateTimeWithTimeZone,
    pub last_seen_at: Option<TimeDateTimeWithTimeZone>,
    /// The time of its retirement; absent while it is active.
    pub retired_at: Option<TimeDateTimeWithTimeZone>,
    /// The retired worker whose datasets it took over.
    pub replaces: Option<Uuid>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
