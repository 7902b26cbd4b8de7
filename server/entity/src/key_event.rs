//! An event of a worker's key, at its position in the signed log. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::log::leaf::KeyEvent;
use undertone_server_base::error::Error;

use crate::column::parse_word;

/// An event of a worker's key, at its position in the signed log. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "key_event")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i64,
    pub worker_id: Uuid,
    pub organization_id: Uuid,
    /// Position in the worker's events, from 1.
    pub number: i64,
    /// A [`KeyEvent`]: a text of a leaf of the log.
    pub event: String,
    pub public_key: String,
    pub at: TimeDateTimeWithTimeZone,
}

impl Model {
    /// Returns the event.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn event(&self) -> Result<KeyEvent, Error> {
        parse_word("reading the column key_event.event", &self.event)
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
