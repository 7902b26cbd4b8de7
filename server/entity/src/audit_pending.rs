//! An audit entry that has no place in the signed log yet.

use sea_orm::entity::prelude::*;

/// An audit entry that has no place in the signed log yet.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit_pending")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub place: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub place_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i64,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
