//! A privacy account: its balance is a projection of the ledger's rows.

use sea_orm::entity::prelude::*;

/// A privacy account: its balance is a projection of the ledger's rows.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "account")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub organization_id: Uuid,
    pub lineage_id: Uuid,
    pub unit: String,
    pub adjacency: String,
    pub observer: String,
    #[sea_orm(column_type = "Text")]
    pub balance: String,
    pub in_the_clear: i64,
    pub entries: i64,
    pub head: String,
    pub created_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
