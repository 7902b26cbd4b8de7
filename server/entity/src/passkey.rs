//! A passkey with which a member signs in: its public half.

use sea_orm::entity::prelude::*;
use undertone_api::passkey::Passkey;
use undertone_api::signed::PasskeyAlgorithm;

use crate::column::EnumColumn;

/// A passkey with which a member signs in: its public half.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "passkey")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub member_id: Uuid,
    pub label: String,
    pub algorithm: EnumColumn<PasskeyAlgorithm, Entity>,
    #[sea_orm(column_type = "Text")]
    pub public_key: String,
    /// The credential's id, hex.
    #[sea_orm(column_type = "Text")]
    pub credential: String,
    /// SHA-256 of the credential's id, which must be unique.
    pub credential_hash: String,
    /// The last signature counter; 0 for passkeys without one.
    pub counter: i64,
    pub created_at: TimeDateTimeWithTimeZone,
    pub last_used_at: Option<TimeDateTimeWithTimeZone>,
}

impl From<Model> for Passkey {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            label: row.label,
            algorithm: *row.algorithm,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
