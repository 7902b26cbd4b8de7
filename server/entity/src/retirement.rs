//! A retirement, and its end.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::id::MemberId;
use undertone_api::member::RoleGrant;
use undertone_api::retirement::Retirement;

use crate::column::{EnumColumn, JsonColumn};

/// A retirement, and its end.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "retirement")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub kind: EnumColumn<SubjectKind, Entity>,
    pub subject_id: Uuid,
    /// The organization of a member, the consortium of an organization.
    pub scope_id: Option<Uuid>,
    pub authority: EnumColumn<RestoreAuthority, Entity>,
    #[sea_orm(column_type = "Text")]
    pub reason: String,
    /// The roles that a restoration returns.
    #[sea_orm(column_type = "Text")]
    pub roles: JsonColumn<Vec<StoredRole>, Entity>,
    pub retired_at: TimeDateTimeWithTimeZone,
    pub retired_by: Uuid,
    pub restored_at: Option<TimeDateTimeWithTimeZone>,
    pub restored_by: Option<Uuid>,
    #[sea_orm(column_type = "Text")]
    pub restored_reason: String,
}

/// The kind of a retired subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A worker.
    Worker,
    /// A member at one organization.
    Member,
    /// An organization in one consortium.
    Organization,
    /// A member's account.
    Account,
}

/// The least authority that may restore the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreAuthority {
    /// The organization's own admins.
    Organization,
    /// Admins of the consortium, or operators.
    Consortium,
}

/// A role that a retirement removed and a restoration returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRole {
    /// The member.
    pub member: MemberId,
    /// The role, with its scope.
    #[serde(flatten)]
    pub grant: RoleGrant,
}

impl From<Model> for Retirement {
    fn from(row: Model) -> Self {
        Self {
            at: row.retired_at,
            by: row.retired_by.into(),
            is_own: row.authority == RestoreAuthority::Organization,
            reason: row.reason,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
