//! A row of an account's ledger. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::budget::{EntryKind, LedgerEntry};
use undertone_privacy::Event;
use undertone_privacy::ledger::JobCertificate;
use undertone_server_base::error::Error;

use crate::column::{parse_json, parse_word};

/// A row of an account's ledger. Append-only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "ledger_entry")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub sequence: i64,
    /// An [`EntryKind`]: a text under the hash of the row.
    pub kind: String,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    pub series: Option<String>,
    pub round: Option<i32>,
    pub attempt: Option<i32>,
    /// An [`Event`]: a text under the hash of the row.
    #[sea_orm(column_type = "Text")]
    pub event: String,
    pub count: i64,
    pub evaluator: String,
    pub receipt: Option<String>,
    pub previous: String,
    pub hash: String,
    pub at: TimeDateTimeWithTimeZone,
    /// The [`JobCertificate`] of a reservation on an account with the Gaussian filter: a text under the hash of the row.
    #[sea_orm(column_type = "Text")]
    pub certificate: Option<String>,
}

impl Model {
    /// Returns the kind of the row.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn kind(&self) -> Result<EntryKind, Error> {
        parse_word("reading the column ledger_entry.kind", &self.kind)
    }

    /// Returns the charged event.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn event(&self) -> Result<Event, Error> {
        parse_json("reading the column ledger_entry.event", &self.event)
    }

    /// Returns the certificate of a reservation, if it has one.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn certificate(&self) -> Result<Option<JobCertificate>, Error> {
        let parse = |text: &String| parse_json("reading the column ledger_entry.certificate", text);
        self.certificate.as_ref().map(parse).transpose()
    }
}

impl TryFrom<Model> for LedgerEntry {
    type Error = Error;

    fn try_from(row: Model) -> Result<Self, Error> {
        let kind = row.kind()?;
        let event = row.event()?;
        let certificate = row.certificate()?;
        let round = row.series.zip(row.round).map(|(series, round)| format!("{series}/{round}"));
        Ok(Self {
            sequence: row.sequence as u64,
            account: row.account_id.into(),
            kind,
            job: row.job_id.into(),
            round,
            event,
            count: row.count as u64,
            certificate,
            receipt: row.receipt,
            hash: row.hash,
            at: row.at,
        })
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
