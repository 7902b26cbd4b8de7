//! A security notice queued for one channel.

use sea_orm::entity::prelude::*;

/// A security notice queued for one channel.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notice_delivery")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub member_id: Uuid,
    pub channel: String,
    pub kind: String,
    #[sea_orm(column_type = "Text")]
    pub text: String,
    pub at: TimeDateTimeWithTimeZone,
    pub attempts: i32,
    pub due_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
