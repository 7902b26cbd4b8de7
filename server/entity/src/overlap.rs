//! A declaration about people in several organizations of a consortium. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::consortium::OverlapRule;
use undertone_privacy::ledger::Overlap;

use crate::column::JsonColumn;

/// A declaration about people in several organizations of a consortium. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "overlap")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub consortium_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub sequence: i32,
    #[sea_orm(column_type = "Text")]
    pub overlap: JsonColumn<Overlap, Entity>,
    #[sea_orm(column_type = "Text")]
    pub statement: String,
    pub member_id: Uuid,
    pub attested_by: String,
    pub attested_at: TimeDateTimeWithTimeZone,
}

impl From<Model> for OverlapRule {
    fn from(row: Model) -> Self {
        Self {
            overlap: row.overlap.into_value(),
            statement: row.statement,
            attested_by: Some(row.attested_by),
            attested_at: Some(row.attested_at),
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
