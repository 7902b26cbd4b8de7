//! Retirement: the immediate end of access for a worker, a member of an organization, an organization in a consortium,
//! or an account; and its restoration. Nothing is deleted, so signatures stay verifiable and spent budgets stay spent.
//!
//! The lowest layer enforces it. `grpc::auth` reads the worker's row at each call; `session::actor_of` and
//! `api_key::authenticate` read the account's row and the roles at each call. A retirement removes the roles and stores
//! them in its own row, so each operation that requires a role refuses at once. Streams are checked after
//! `ChangeNotifier::notify_standings`.
//!
//! Unfinished jobs: see `parts`. To retire another kind of subject: a `SubjectKind`, a file here, its rows in the
//! policy table, and the check where the subject authenticates.

mod account;
mod links;
mod member;
mod organization;
pub mod parts;
#[cfg(test)]
mod tests;
mod worker;
mod write_off;

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use undertone_api::member::RoleGrant;
use undertone_api::retirement::StatedReason;
use uuid::Uuid;

use crate::auth::policy::{self, Standing};
use crate::auth::{Actor, Place};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, JsonColumn};
use crate::model::retirement::{RestoreAuthority, StoredRole, SubjectKind};
use crate::model::{retirement, role};
use crate::service::member as members;

pub use account::{list_accounts, restore_account, retire_account};
pub(crate) use links::withdraw_links;
pub(crate) use member::check_not_retired;
pub use member::{list_retired_members, restore_member, retire_member};
pub use organization::{restore_organization, retire_organization};
pub use worker::{restore_worker, retire_worker};
pub use write_off::write_off_worker;

/// A subject, with its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetiredSubject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its id.
    pub id: Uuid,
    /// The organization of a member, the consortium of an organization.
    pub scope: Option<Uuid>,
}

/// Checks the request of a retirement or a restoration: a fresh proof of identity, then the reason. Returns the reason,
/// trimmed.
fn check_request<'a>(actor: &Actor, stated: &'a StatedReason) -> Result<&'a str, Error> {
    policy::check_fresh(actor)?;
    let violations = stated.check();
    if violations.is_empty() { Ok(stated.reason.trim()) } else { Err(Error::validation(violations)) }
}

/// Returns the authority with which `actor` acts at an organization: the lowest that applies.
fn authority_of(actor: &Actor, place: Place) -> RestoreAuthority {
    if Standing::list_for(actor, place).contains(&Standing::OrganizationAdmin) {
        RestoreAuthority::Organization
    } else {
        RestoreAuthority::Consortium
    }
}

/// Rejects an organization's admin for a retirement by the consortium or an operator.
fn check_authority(actor: &Actor, place: Place, row: &retirement::Model) -> Result<(), Error> {
    let standings = Standing::list_for(actor, place);
    let is_above = standings.contains(&Standing::ConsortiumAdmin) || standings.contains(&Standing::Operator);
    if row.authority == RestoreAuthority::Organization || is_above {
        return Ok(());
    }
    Err(Error::forbidden("a consortium admin or an operator retired it: ask them to restore it"))
}

/// Begins a retirement. The caller has checked that none is in force.
async fn begin(
    ctx: &Ctx,
    tx: &Tx,
    actor: &Actor,
    subject: RetiredSubject,
    authority: RestoreAuthority,
    reason: &str,
    roles: Vec<StoredRole>,
) -> Result<retirement::Model, Error> {
    let row = retirement::Model {
        id: ctx.id::<Uuid>(),
        kind: subject.kind.into(),
        subject_id: subject.id,
        scope_id: subject.scope,
        authority: authority.into(),
        reason: reason.to_owned(),
        roles: JsonColumn::new(roles)?,
        retired_at: ctx.now(),
        retired_by: actor.id().0,
        restored_at: None,
        restored_by: None,
        restored_reason: String::new(),
    };
    Ok(row.into_active_model().insert(tx).await?)
}

/// Ends a retirement.
async fn end(ctx: &Ctx, tx: &Tx, actor: &Actor, row: retirement::Model, reason: &str) -> Result<(), Error> {
    let row = retirement::Model {
        restored_at: Some(ctx.now()),
        restored_by: Some(actor.id().0),
        restored_reason: reason.to_owned(),
        ..row
    };
    row.into_active_model().reset_all().update(tx).await?;
    Ok(())
}

/// Returns the retirement in force of a subject, if there is one.
///
/// # Errors
/// When the database fails.
pub(crate) async fn in_force(
    connection: &impl ConnectionTrait,
    subject: RetiredSubject,
) -> Result<Option<retirement::Model>, Error> {
    Ok(all_in_force(connection, subject.kind, &[subject.id], subject.scope).await?.remove(&subject.id))
}

/// Returns the retirements in force of subjects of one kind, by subject.
///
/// # Errors
/// When the database fails.
pub(crate) async fn all_in_force(
    connection: &impl ConnectionTrait,
    kind: SubjectKind,
    ids: &[Uuid],
    scope: Option<Uuid>,
) -> Result<HashMap<Uuid, retirement::Model>, Error> {
    let mut query = retirement::Entity::find()
        .filter(retirement::Column::Kind.eq(kind.to_text()))
        .filter(retirement::Column::SubjectId.is_in(ids.iter().copied()))
        .filter(retirement::Column::RestoredAt.is_null())
        .order_by_asc(retirement::Column::Id);
    if let Some(scope) = scope {
        query = query.filter(retirement::Column::ScopeId.eq(scope));
    }
    let rows = query.all(connection).await?;
    Ok(rows.into_iter().map(|row| (row.subject_id, row)).collect())
}

/// Removes roles; returns them for the retirement's row.
async fn take_roles(tx: &Tx, rows: Vec<role::Model>) -> Result<Vec<StoredRole>, Error> {
    let mut roles = Vec::with_capacity(rows.len());
    for row in rows {
        roles.push(StoredRole { member: row.member_id.into(), grant: RoleGrant::from(&row) });
        let key = (row.member_id, row.scope, row.scope_id, row.role);
        role::Entity::delete_by_id(key).exec(tx).await?;
    }
    Ok(roles)
}

/// Grants the roles again that a retirement removed.
async fn give_roles_back(tx: &Tx, row: &retirement::Model) -> Result<Vec<StoredRole>, Error> {
    for StoredRole { member, grant } in &*row.roles {
        members::grant(tx, *member, grant.scope, grant.role).await?;
    }
    Ok(row.roles.to_vec())
}

/// Notifies the affected tasks of this process: waiting workers, watchers and streams.
fn notify_all(ctx: &Ctx) {
    ctx.changes().notify();
    ctx.changes().notify_standings();
}
