//! A dataset in a job.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::dataset::Visibility;
use undertone_api::job::{Charge, DatasetUse};
use undertone_api::signed::Consent;

use crate::column::{EnumColumn, JsonColumn};

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
    pub visibility: EnumColumn<Visibility, Entity>,
    pub purpose: EnumColumn<DatasetUse, Entity>,
    #[sea_orm(column_type = "Text", nullable)]
    pub charge: Option<JsonColumn<Charge, Entity>>,
    pub approval: EnumColumn<ApprovalState, Entity>,
    pub approval_by: Option<String>,
    #[sea_orm(column_type = "Text", nullable)]
    pub approval_reason: Option<String>,
    pub steward_approved: bool,
    pub limit_id: Option<Uuid>,
    pub site_answered: bool,
    /// The evidence of the owner's consent.
    #[sea_orm(column_type = "Text", nullable)]
    pub consent: Option<JsonColumn<Consent, Entity>>,
    pub state: EnumColumn<PartState, Entity>,
    pub releases: i64,
}

/// The state of an owner's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Public data need none.
    NotNeeded,
    /// Not answered yet.
    Pending,
    /// Approved.
    Approved,
    /// Refused.
    Refused,
}

/// The state of a participant's part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// No worker has had a lease.
    Waiting,
    /// A worker has or had a lease.
    Running,
    /// The part is done, and its reservation settled.
    Done,
    /// The part failed, and its reservation is settled.
    Failed,
    /// The worker or the organization was retired after a lease. Its releases may still have to be counted.
    Withdrawn,
    /// The party left after a lease. Its worker still has to account for its releases; then the part is `Failed`.
    Leaving,
}

impl PartState {
    /// The states of a part that its worker may still run.
    pub const OPEN: [Self; 2] = [Self::Waiting, Self::Running];
    /// The states of a part that contributes nothing more: the worker gave up, it or its organization was retired, or
    /// the party left.
    pub const OUT: [Self; 3] = [Self::Failed, Self::Withdrawn, Self::Leaving];

    /// Returns whether it contributes nothing more.
    pub fn is_out(self) -> bool {
        Self::OUT.contains(&self)
    }

    /// Returns whether its worker may still run the part.
    pub fn is_open(self) -> bool {
        Self::OPEN.contains(&self)
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
