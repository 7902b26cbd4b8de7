//! An entry of a place's audit log. Append-only.

use sea_orm::entity::prelude::*;
use undertone_api::audit_log::{ActorKind, AuditAction};
use undertone_server_base::error::Error;

use crate::column::{parse_json, parse_word};

/// An entry of a place's audit log. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit_log")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub place: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub place_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i64,
    pub at: TimeDateTimeWithTimeZone,
    /// An [`ActorKind`], a text under the hash of the entry. So are the action and the detail.
    pub by_hand: String,
    pub by_id: Option<Uuid>,
    /// An [`AuditAction`].
    pub what: String,
    pub subject_kind: Option<String>,
    pub subject_id: Option<String>,
    /// JSON.
    #[sea_orm(column_type = "Text")]
    pub detail: String,
    pub previous: String,
    pub hash: String,
}

impl Model {
    /// Returns the kind of the author.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn hand(&self) -> Result<ActorKind, Error> {
        parse_word("reading the column audit_log.by_hand", &self.by_hand)
    }

    /// Returns the action.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn action(&self) -> Result<AuditAction, Error> {
        parse_word("reading the column audit_log.what", &self.what)
    }

    /// Returns the detail.
    ///
    /// # Errors
    /// When the column holds another text.
    pub fn detail(&self) -> Result<serde_json::Value, Error> {
        parse_json("reading the column audit_log.detail", &self.detail)
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
