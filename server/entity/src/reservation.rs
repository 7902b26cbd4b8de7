//! A reservation: the charges that a job may still make on an account. A job has one reservation on each account that
//! it charges.

use sea_orm::entity::prelude::*;
use undertone_privacy::Event;
use undertone_privacy::curve::Curve;
use undertone_privacy::ledger::JobCost;
use undertone_server_base::error::Error;

use crate::column::parse_json;

/// A reservation: the charges that a job may still make on an account.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "reservation")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub account_id: Uuid,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    /// The event, a text that each row of the ledger repeats to the byte.
    #[sea_orm(column_type = "Text")]
    pub event: String,
    /// The [`Curve`] of a release, or of the job on an account with the Gaussian filter. An export reports when it cannot be
    /// read.
    #[sea_orm(column_type = "Text")]
    pub per_release: String,
    pub in_the_clear: bool,
    pub releases: i64,
    pub committed: i64,
    pub settled: bool,
    /// Whether the account is that of the unit which the job protects.
    pub own: bool,
}

impl Model {
    /// Returns the reserved event.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn event(&self) -> Result<Event, Error> {
        parse_json("reading the column reservation.event", &self.event)
    }

    /// Returns the cost of the job: this server reserves each job on an account with the Gaussian filter as a whole, and
    /// each mechanism that is one.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn cost(&self) -> Result<JobCost, Error> {
        let cost = self.per_release()?;
        let is_whole = cost.mu_squared().is_some() || self.event()?.whole_releases().is_some();
        Ok(if is_whole { JobCost::Whole(cost) } else { JobCost::PerRelease(cost) })
    }

    /// Returns the cost of a release, or of the job on an account with the Gaussian filter.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn per_release(&self) -> Result<Curve, Error> {
        parse_json("reading the column reservation.per_release", &self.per_release)
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
