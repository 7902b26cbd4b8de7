//! A job.

use sea_orm::entity::prelude::*;

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
    pub spec: String,
    #[sea_orm(column_type = "Text")]
    pub series: String,
    pub state: String,
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
    pub refusals: String,
    #[sea_orm(column_type = "Text", nullable)]
    pub report: Option<String>,
    pub created_at: TimeDateTimeWithTimeZone,
    pub started_at: Option<TimeDateTimeWithTimeZone>,
    pub finished_at: Option<TimeDateTimeWithTimeZone>,
    /// Whether it asks questions of people.
    pub asks: bool,
    /// When it is refused by itself unless all have answered; empty in jobs of before there was such a time.
    pub answer_by: Option<TimeDateTimeWithTimeZone>,
    /// When its manifest ends, and with it the job; empty in jobs of before.
    pub not_after: Option<TimeDateTimeWithTimeZone>,
    /// Since when it is paused; empty while it is not.
    pub paused_at: Option<TimeDateTimeWithTimeZone>,
    /// Milliseconds that it was paused before, all in all.
    pub paused_for: i64,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
