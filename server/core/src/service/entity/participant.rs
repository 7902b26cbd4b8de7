//! A dataset in a job.

use sea_orm::entity::prelude::*;

/// A dataset in a job.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "participant")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: Uuid,
    pub position: i32,
    pub lineage_id: Uuid,
    pub organization_id: Uuid,
    pub worker_id: Uuid,
    pub dataset_name: String,
    pub organization_name: String,
    pub visibility: String,
    pub purpose: String,
    #[sea_orm(column_type = "Text", nullable)]
    pub charge: Option<String>,
    pub approval: String,
    pub approval_by: Option<String>,
    #[sea_orm(column_type = "Text", nullable)]
    pub approval_reason: Option<String>,
    pub steward_approved: bool,
    pub limit_id: Option<Uuid>,
    pub site_answered: bool,
    /// The evidence of the owner's consent, JSON.
    #[sea_orm(column_type = "Text", nullable)]
    pub consent: Option<String>,
    pub state: String,
    pub releases: i64,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
