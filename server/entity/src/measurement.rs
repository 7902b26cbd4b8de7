//! A figure measured on public data.

use sea_orm::entity::prelude::*;
use undertone_api::job::Measurement;

/// A figure measured on public data.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "measurement")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub series: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub round: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    pub test: String,
    pub frames: i64,
    pub accuracy: f64,
    pub loss: f64,
    pub at: TimeDateTimeWithTimeZone,
}

impl From<Model> for Measurement {
    fn from(row: Model) -> Self {
        Self {
            series: row.series,
            round: row.round as u32,
            test: row.test,
            frames: row.frames as u64,
            accuracy: row.accuracy,
            loss: row.loss,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
