//! A job.

use sea_orm::entity::prelude::*;
use undertone_api::budget::BudgetRefusal;
use undertone_api::job::{JobState, JobSummary, Report, Spec};
use undertone_api::signed::Manifest;
use undertone_server_base::error::Error;

use crate::column::{EnumColumn, JsonColumn, parse_json};
use crate::planned_series::PlannedSeries;

/// A job.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "job")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub consortium_id: Uuid,
    pub title: String,
    pub kind: String,
    #[sea_orm(column_type = "Text")]
    pub spec: JsonColumn<Spec, Entity>,
    #[sea_orm(column_type = "Text")]
    pub series: JsonColumn<Vec<PlannedSeries>, Entity>,
    pub state: EnumColumn<JobState, Entity>,
    /// A [`Manifest`]: the signed text.
    #[sea_orm(column_type = "Text")]
    pub manifest: String,
    pub signature: String,
    pub digest: String,
    pub proposer_id: Uuid,
    pub proposed_by: String,
    pub rounds_done: i32,
    pub rounds: i32,
    #[sea_orm(column_type = "Text", nullable)]
    pub reason: Option<String>,
    #[sea_orm(column_type = "Text")]
    pub refusals: JsonColumn<Vec<BudgetRefusal>, Entity>,
    #[sea_orm(column_type = "Text", nullable)]
    pub report: Option<JsonColumn<Report, Entity>>,
    pub created_at: TimeDateTimeWithTimeZone,
    pub started_at: Option<TimeDateTimeWithTimeZone>,
    pub finished_at: Option<TimeDateTimeWithTimeZone>,
    /// Whether the job has questions for annotators.
    pub asks: bool,
    /// The deadline for all approvals, after which the job is refused; empty in old jobs.
    pub answer_by: Option<TimeDateTimeWithTimeZone>,
    /// The end of its manifest, and thus of the job; empty in old jobs.
    pub not_after: Option<TimeDateTimeWithTimeZone>,
    /// The start of the present pause; empty while it is not paused.
    pub paused_at: Option<TimeDateTimeWithTimeZone>,
    /// The total length of ended pauses since the start of the job, milliseconds.
    pub paused_for: i64,
}

impl Model {
    /// Returns the signed manifest.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        parse_json("reading the column job.manifest", &self.manifest)
    }

    /// Returns whether `digest` names its manifest, or the proposal from which that was settled.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn is_named_by(&self, digest: &str) -> Result<bool, Error> {
        Ok(digest == self.digest || digest == self.manifest()?.approved_digest(&self.digest))
    }
}

impl From<&Model> for JobSummary {
    fn from(row: &Model) -> Self {
        Self {
            id: row.id.into(),
            consortium: row.consortium_id.into(),
            title: row.title.clone(),
            kind: row.kind.clone(),
            state: *row.state,
            proposed_by: row.proposed_by.clone(),
            rounds_done: row.rounds_done as u32,
            rounds: row.rounds as u32,
            created_at: row.created_at,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
