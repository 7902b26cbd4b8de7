//! A privacy account: its balance is a projection of the ledger's rows.

use sea_orm::entity::prelude::*;
use undertone_privacy::ledger::Balance;
use undertone_privacy::{Adjacency, PrivacyUnit};
use undertone_server_base::error::Error;

use crate::column::{ColumnEnum as _, parse_json, parse_word};

/// A privacy account: its balance is a projection of the ledger's rows.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "account")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub organization_id: Uuid,
    pub lineage_id: Uuid,
    /// A [`PrivacyUnit`], an [`Adjacency`] and the class of the observer: texts of a leaf of the log.
    pub unit: String,
    pub adjacency: String,
    pub observer: String,
    /// A [`Balance`], which an export reports when it cannot be read.
    #[sea_orm(column_type = "Text")]
    pub balance: String,
    pub in_the_clear: i64,
    pub entries: i64,
    pub head: String,
    pub created_at: TimeDateTimeWithTimeZone,
}

impl Model {
    /// Returns the protected unit.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn unit(&self) -> Result<PrivacyUnit, Error> {
        parse_word("reading the column account.unit", &self.unit)
    }

    /// Returns the relation that names the account.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn adjacency(&self) -> Result<Adjacency, Error> {
        parse_word("reading the column account.adjacency", &self.adjacency)
    }

    /// Returns the spent and reserved sums.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn balance(&self) -> Result<Balance, Error> {
        parse_json("reading the column account.balance", &self.balance)
    }

    /// Returns whether the account is that of a unit and a relation.
    pub fn is_for(&self, unit: PrivacyUnit, adjacency: Adjacency) -> bool {
        self.unit == unit.to_text() && self.adjacency == adjacency.to_text()
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
