//! A dataset: the coarse facts.

use sea_orm::entity::prelude::*;
use undertone_api::dataset::{DatasetContent, Visibility};
use undertone_api::signed::SiteApproval;
use undertone_api::table::TableSchema;

use crate::column::{EnumColumn, JsonColumn};

/// A dataset: the coarse facts.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "dataset")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub organization_id: Uuid,
    pub worker_id: Uuid,
    pub lineage_id: Uuid,
    pub name: String,
    pub visibility: EnumColumn<Visibility, Entity>,
    pub inputs: i32,
    pub classes: i32,
    pub records: i64,
    pub speakers: i64,
    pub test_records: i64,
    /// Absent where there is no column of users.
    pub users: Option<i64>,
    /// Words separated by blanks; absent in old rows: records and speakers.
    pub units: Option<String>,
    pub content: EnumColumn<DatasetContent, Entity>,
    /// Seconds of sound; for recordings only.
    pub seconds: Option<i64>,
    /// The approval rule and keys of its site; absent from workers that do not state them.
    #[sea_orm(column_type = "Text", nullable)]
    pub approval: Option<JsonColumn<SiteApproval, Entity>>,
    /// The declared columns of a table; absent for other content.
    #[sea_orm(column_type = "Text", nullable)]
    pub table_schema: Option<JsonColumn<TableSchema, Entity>>,
    pub created_at: TimeDateTimeWithTimeZone,
    pub updated_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
