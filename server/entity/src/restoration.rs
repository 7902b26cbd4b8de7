//! A signed statement that the server was restored to an earlier state. Append-only.

use sea_orm::entity::prelude::*;

/// A signed statement that the server was restored to an earlier state. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "restoration")]
pub struct Model {
    /// Position of its leaf in the log: the number of leaves of the restored log.
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i64,
    pub digest: String,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    pub signature: String,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
