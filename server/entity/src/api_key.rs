//! A key with which a program acts for a member, by the hash of its secret.

use sea_orm::entity::prelude::*;
use undertone_api::api_key::{ApiKey, KeyScope};

use crate::column::JsonColumn;

/// A key with which a program acts for a member, by the hash of its secret.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "api_key")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub member_id: Uuid,
    pub name: String,
    #[sea_orm(column_type = "Text")]
    pub scopes: JsonColumn<Vec<KeyScope>, Entity>,
    pub secret_hash: String,
    pub created_at: TimeDateTimeWithTimeZone,
    pub expires_at: TimeDateTimeWithTimeZone,
    pub last_used_at: Option<TimeDateTimeWithTimeZone>,
    pub revoked_at: Option<TimeDateTimeWithTimeZone>,
}

impl From<Model> for ApiKey {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            name: row.name,
            scopes: row.scopes.into_value(),
            secret: None,
            created_at: row.created_at,
            expires_at: row.expires_at,
            last_used_at: row.last_used_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
