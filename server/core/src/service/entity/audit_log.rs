//! An entry of a place's audit log. Append-only.

use sea_orm::entity::prelude::*;

/// An entry of a place's audit log. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit_log")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub place: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub place_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i64,
    pub at: TimeDateTimeWithTimeZone,
    pub by_hand: String,
    pub by_id: Option<Uuid>,
    pub what: String,
    pub subject_kind: Option<String>,
    pub subject_id: Option<String>,
    #[sea_orm(column_type = "Text")]
    pub detail: String,
    pub previous: String,
    pub hash: String,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
