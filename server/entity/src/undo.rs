//! The withdrawal of an answer. Append-only.

use sea_orm::entity::prelude::*;

/// The withdrawal of an answer. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "undo")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub annotation_id: Uuid,
    pub job_id: Uuid,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
