//! An answer. Append-only.

use sea_orm::entity::prelude::*;

/// An answer. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "annotation")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub question_id: Uuid,
    pub round: i32,
    pub annotator: i32,
    /// `label`, `unsure` or `skip`.
    pub answer: String,
    pub label: Option<String>,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
