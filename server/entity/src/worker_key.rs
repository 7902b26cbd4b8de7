//! A change of a site's key, signed with both keys. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::signed::{KeyRotation, Signed};

/// A change of a site's key, signed with both keys. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "worker_key")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i32,
    pub public_key: String,
    pub receipts: i64,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    pub by_old: String,
    pub by_new: String,
    pub recorded_at: TimeDateTimeWithTimeZone,
}

impl From<Model> for KeyRotation {
    fn from(row: Model) -> Self {
        Self {
            by_old: Signed { payload: row.payload.clone(), signature: row.by_old },
            by_new: Signed { payload: row.payload, signature: row.by_new },
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
