//! The place of a record in the log. Append-only.

use sea_orm::entity::prelude::*;

/// The place of a record in the log. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "log_leaf")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i64,
    pub kind: String,
    pub account_id: Uuid,
    pub sequence: Option<i64>,
    pub budget_id: Option<Uuid>,
    #[sea_orm(column_type = "Text")]
    pub nodes: String,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
