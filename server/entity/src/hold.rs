//! A question that is assigned to a member until a time.

use sea_orm::entity::prelude::*;

/// A question that is assigned to a member until a time.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "hold")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub question_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub member_id: Uuid,
    pub job_id: Uuid,
    pub until: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
