//! The progress of a worker that returns its receipts to a restored server.

use sea_orm::entity::prelude::*;

/// The progress of a worker that returns its receipts to a restored server.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "reconciliation")]
pub struct Model {
    /// Position of the restoration's statement.
    #[sea_orm(primary_key, auto_increment = false)]
    pub restoration: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: Uuid,
    /// The number of returned receipts.
    pub receipts: i64,
    /// The time at which the worker had returned all of them; absent until then.
    pub finished_at: Option<TimeDateTimeWithTimeZone>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
