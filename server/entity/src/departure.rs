//! A party's departure from a job. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::job::{Departure, DepartureOrigin};

use crate::column::EnumColumn;

/// A party's departure from a job. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "departure")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: Uuid,
    pub origin: EnumColumn<DepartureOrigin, Entity>,
    pub by: String,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    pub rounds_done: i32,
    #[sea_orm(column_type = "Text", nullable)]
    pub payload: Option<String>,
    pub signature: Option<String>,
    pub at: TimeDateTimeWithTimeZone,
}

impl From<Model> for Departure {
    fn from(row: Model) -> Self {
        Self { origin: *row.origin, by: row.by, reason: row.reason, rounds_done: row.rounds_done as u32, at: row.at }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
