//! A worker that was written off, because its site will not return.

use sea_orm::entity::prelude::*;

/// A worker that was written off, because its site will not return.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "write_off")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub worker_id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    pub written_off_by: Uuid,
    pub written_off_at: TimeDateTimeWithTimeZone,
    /// The time at which the site returned with its key and its receipts; absent until then.
    pub returned_at: Option<TimeDateTimeWithTimeZone>,
    /// The root of the last head that the site had verified until then.
    pub returned_head: Option<String>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
