//! A stored file of a job.

use sea_orm::entity::prelude::*;

/// A stored file of a job.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "artifact")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub name: String,
    pub size: i64,
    pub digest: String,
    pub created_at: TimeDateTimeWithTimeZone,
    /// When its bytes were deleted. Then the author and the reason are there as well.
    pub deleted_at: Option<TimeDateTimeWithTimeZone>,
    pub deleted_by: Option<Uuid>,
    pub deletion_reason: Option<String>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl Model {
    /// Returns the reason why the bytes were deleted; `None` if they were not.
    pub fn deletion_reason(&self) -> Option<&str> {
        self.deleted_at.map(|_| self.deletion_reason.as_deref().unwrap_or_default())
    }
}

impl ActiveModelBehavior for ActiveModel {}
