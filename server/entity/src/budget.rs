//! One limit that a steward set on an account. Append-only.

use sea_orm::entity::prelude::*;
use undertone_privacy::ledger::Budget;
use undertone_server_base::error::Error;

use crate::column::parse_json;

/// One limit that a steward set on an account. Append-only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "budget")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub account_id: Uuid,
    pub epsilon: f64,
    pub delta: f64,
    /// A [`Budget`]: a text of a leaf of the log.
    #[sea_orm(column_type = "Text")]
    pub limits: String,
    pub set_by: Uuid,
    pub set_at: TimeDateTimeWithTimeZone,
}

impl Model {
    /// Returns the limits.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn limits(&self) -> Result<Budget, Error> {
        parse_json("reading the column budget.limits", &self.limits)
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
