//! A one-time link, by the hash of its secret.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::member::Role;
use undertone_api::organization::{Invitation, InvitationPurpose};
use undertone_server_base::error::Error;

use crate::column::{EnumColumn, JsonColumn};

/// A one-time link, by the hash of its secret.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "invitation")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub secret_hash: String,
    pub purpose: EnumColumn<LinkPurpose, Entity>,
    pub scope_id: Option<Uuid>,
    #[sea_orm(column_type = "Text")]
    pub roles: JsonColumn<Vec<Role>, Entity>,
    pub label: String,
    pub invited_by: Option<Uuid>,
    pub created_at: TimeDateTimeWithTimeZone,
    pub expires_at: TimeDateTimeWithTimeZone,
    pub used_at: Option<TimeDateTimeWithTimeZone>,
    pub withdrawn_at: Option<TimeDateTimeWithTimeZone>,
}

/// The purpose of a one-time link, without its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkPurpose {
    /// A link for an operator of the server.
    Operator,
    /// A link for a new organization of a consortium.
    Organization,
    /// A link for an annotator of a consortium.
    Annotator,
    /// A link for a member of an organization.
    Member,
}

impl TryFrom<&Model> for InvitationPurpose {
    type Error = Error;

    fn try_from(row: &Model) -> Result<Self, Error> {
        match (*row.purpose, row.scope_id) {
            (LinkPurpose::Operator, _) => Ok(Self::Operator),
            (LinkPurpose::Organization, Some(id)) => Ok(Self::Organization { consortium: id.into() }),
            (LinkPurpose::Annotator, Some(id)) => Ok(Self::Annotator { consortium: id.into() }),
            (LinkPurpose::Member, Some(id)) => Ok(Self::Member { organization: id.into(), roles: row.roles.to_vec() }),
            (other, _) => Err(Error::internal("reading an invitation's purpose", format!("{other:?} is none"))),
        }
    }
}

impl TryFrom<Model> for Invitation {
    type Error = Error;

    fn try_from(row: Model) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            purpose: (&row).try_into()?,
            label: row.label,
            link: None,
            expires_at: row.expires_at,
            used: row.used_at.is_some(),
            withdrawn: row.withdrawn_at.is_some(),
        })
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
