//! A job's certificate as the server signed it. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::signed::Certificate;
use undertone_server_base::error::Error;

use crate::column::parse_json;

/// A job's certificate as the server signed it. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "certificate")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    pub digest: String,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    pub signature: String,
    pub issued_at: TimeDateTimeWithTimeZone,
}

impl Model {
    /// Returns the certificate.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn certificate(&self) -> Result<Certificate, Error> {
        parse_json("reading the column certificate.payload", &self.payload)
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
