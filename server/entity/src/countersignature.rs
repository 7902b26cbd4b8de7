//! The server's countersignature of a receipt. Append-only.

use sea_orm::entity::prelude::*;

/// The server's countersignature of a receipt. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "countersignature")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub sequence: i64,
    pub receipt: String,
    pub position: i64,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    pub signature: String,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
