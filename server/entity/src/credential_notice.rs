//! A change of a steward's credentials, for the sites of their organization. Append-only.

use sea_orm::entity::prelude::*;

/// A change of a steward's credentials, for the sites of their organization. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "credential_notice")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub organization_id: Uuid,
    pub member_id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub text: String,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
