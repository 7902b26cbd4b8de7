//! A request with an idempotency key, and its encrypted response, once there is one.

use sea_orm::entity::prelude::*;

/// A request with an idempotency key, and its encrypted response, once there is one.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "idempotency")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub member_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    pub request: String,
    pub answer: Option<Vec<u8>>,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
