//! A member's second factor; in force once it is confirmed.

use sea_orm::entity::prelude::*;

/// A member's second factor; in force once it is confirmed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "second_factor")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub member_id: Uuid,
    pub secret: String,
    pub last_step: i64,
    pub offered_at: TimeDateTimeWithTimeZone,
    pub confirmed_at: Option<TimeDateTimeWithTimeZone>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
