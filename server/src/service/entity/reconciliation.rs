//! The progress of a worker that gives a restored server its receipts back.

use sea_orm::entity::prelude::*;

/// The progress of a worker that gives a restored server its receipts back.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "reconciliation")]
pub struct Model {
    /// Position of the restoration's statement.
    #[sea_orm(primary_key, auto_increment = false)]
    pub restoration: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: Uuid,
    /// Receipts that came back.
    pub receipts: i64,
    /// When the worker had given all of them; absent until then.
    pub finished_at: Option<TimeDateTimeWithTimeZone>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
