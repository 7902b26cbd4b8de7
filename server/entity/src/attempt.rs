//! The number of sign-in attempts of one member or address within a window of time.

use sea_orm::entity::prelude::*;

/// The number of sign-in attempts of one member or address within a window of time.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "attempt")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub key_hash: String,
    pub began_at: TimeDateTimeWithTimeZone,
    /// The end of the window.
    pub ends_at: TimeDateTimeWithTimeZone,
    pub count: i32,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
