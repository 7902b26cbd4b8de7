//! A public key with which a steward approves jobs.

use sea_orm::entity::prelude::*;
use undertone_api::approval_key::OwnApprovalKey;
use undertone_api::signed::ApprovalKey;

use crate::column::JsonColumn;

/// A public key with which a steward approves jobs.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "approval_key")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub member_id: Uuid,
    pub label: String,
    #[sea_orm(column_type = "Text")]
    pub key: JsonColumn<ApprovalKey, Entity>,
    pub fingerprint: String,
    pub created_at: TimeDateTimeWithTimeZone,
}

impl From<Model> for OwnApprovalKey {
    fn from(row: Model) -> Self {
        let key = row.key.into_value();
        Self {
            id: row.id.into(),
            label: row.label,
            fingerprint: key.fingerprint(),
            line: key.to_line(),
            key,
            created_at: row.created_at,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
