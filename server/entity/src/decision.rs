//! An answer to a proposed job: a steward's or a site's. Append-only.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::column::EnumColumn;

/// An answer to a proposed job: a steward's or a site's. Append-only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "decision")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    pub source: EnumColumn<DecisionSource, Entity>,
    pub approve: bool,
    pub by: String,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    #[sea_orm(column_type = "Text", nullable)]
    pub payload: Option<String>,
    pub signature: Option<String>,
    pub at: TimeDateTimeWithTimeZone,
}

/// The source of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// A steward of the owner.
    Steward,
    /// A steward's standing limit.
    Limit,
    /// The site.
    Site,
    /// The server, which revoked an earlier decision.
    Void,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
