//! A declaration about people in several organizations of a consortium. Append-only.

use sea_orm::entity::prelude::*;
use undertone_privacy::ledger::Overlap;

use super::column::JsonColumn;

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

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
