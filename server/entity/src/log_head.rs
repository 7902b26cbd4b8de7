//! A signed head of the log. Append-only.

use sea_orm::entity::prelude::*;

/// A signed head of the log. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "log_head")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub size: i64,
    pub root: String,
    pub server: String,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    pub signature: String,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
