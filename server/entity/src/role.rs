//! A role of a member, and its scope.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::member::{Role, RoleGrant, RoleScope};

use crate::column::EnumColumn;

/// A role of a member, and its scope.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "role")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub member_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub scope: EnumColumn<ScopeKind, Entity>,
    #[sea_orm(primary_key, auto_increment = false)]
    pub scope_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub role: EnumColumn<Role, Entity>,
}

/// The kind of a role's scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeKind {
    /// One consortium.
    Consortium,
    /// One organization.
    Organization,
}

impl ScopeKind {
    /// Returns the two columns of a scope.
    pub const fn columns(scope: RoleScope) -> (Self, Uuid) {
        match scope {
            RoleScope::Consortium(id) => (Self::Consortium, id.0),
            RoleScope::Organization(id) => (Self::Organization, id.0),
        }
    }
}

impl Model {
    /// Returns the scope of the role.
    pub fn to_scope(&self) -> RoleScope {
        match *self.scope {
            ScopeKind::Consortium => RoleScope::Consortium(self.scope_id.into()),
            ScopeKind::Organization => RoleScope::Organization(self.scope_id.into()),
        }
    }
}

impl From<&Model> for RoleGrant {
    fn from(row: &Model) -> Self {
        Self { scope: row.to_scope(), role: *row.role }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
