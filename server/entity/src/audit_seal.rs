//! The place of an audit entry in the signed log, with its salt.

use sea_orm::entity::prelude::*;

/// The place of an audit entry in the signed log, with its salt.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit_seal")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i64,
    pub place: String,
    pub place_id: Uuid,
    pub number: i64,
    /// 32 random bytes, hex.
    pub salt: String,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
