//! A public key with which a steward approves jobs.

use sea_orm::entity::prelude::*;
use undertone_api::signed::ApprovalKey;

use super::column::JsonColumn;

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

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
