//! The result of an audit: the site's signed statement, and the server's assessment. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::job::audit::{Assessment, AuditVerdict};

use crate::column::{EnumColumn, JsonColumn};

/// The result of an audit: the site's signed statement, and the server's assessment. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: Uuid,
    pub digest: String,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    pub signature: String,
    #[sea_orm(column_type = "Text")]
    pub assessment: JsonColumn<Assessment, Entity>,
    pub verdict: EnumColumn<AuditVerdict, Entity>,
    pub received_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
