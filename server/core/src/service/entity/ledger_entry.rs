//! A row of an account's ledger. Append-only.

use sea_orm::entity::prelude::*;

/// A row of an account's ledger. Append-only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "ledger_entry")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub sequence: i64,
    pub kind: String,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    pub series: Option<String>,
    pub round: Option<i32>,
    pub attempt: Option<i32>,
    #[sea_orm(column_type = "Text")]
    pub event: String,
    pub count: i64,
    pub evaluator: String,
    pub receipt: Option<String>,
    pub previous: String,
    pub hash: String,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
