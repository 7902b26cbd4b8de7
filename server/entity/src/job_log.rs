//! A line of a job's log.

use sea_orm::entity::prelude::*;
use undertone_api::job::log::{LogEvent, LogLevel};

use crate::column::{EnumColumn, JsonColumn};

/// A line of a job's log.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "job_log")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i64,
    /// Absent in lines of the server about the whole job.
    pub dataset_id: Option<Uuid>,
    /// The site's own number; a repeated number is a retransmission.
    pub sequence: Option<i64>,
    pub level: EnumColumn<LogLevel, Entity>,
    #[sea_orm(column_type = "Text")]
    pub event: JsonColumn<LogEvent, Entity>,
    /// The lead of the site's clock over the server's, seconds.
    pub skew_seconds: Option<i64>,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
