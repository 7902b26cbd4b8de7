//! A retirement, and its end.

use sea_orm::entity::prelude::*;

/// A retirement, and its end.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "retirement")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// `worker`, `member`, `organization` or `account`.
    pub kind: String,
    pub subject_id: Uuid,
    /// The organization of a member, the consortium of an organization.
    pub scope_id: Option<Uuid>,
    /// `organization` or `consortium`: the least authority that may restore.
    pub authority: String,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    /// The roles that a restoration returns, JSON.
    #[sea_orm(column_type = "Text")]
    pub roles: String,
    pub retired_at: TimeDateTimeWithTimeZone,
    pub retired_by: Uuid,
    pub restored_at: Option<TimeDateTimeWithTimeZone>,
    pub restored_by: Option<Uuid>,
    #[sea_orm(column_type = "Text")]
    pub restored_reason: String,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
