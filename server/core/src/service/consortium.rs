//! Consortia: groups of organizations that train together.

mod edit;
mod overlap;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use undertone_api::consortium::{Consortium, NewConsortium};
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::{Role, RoleScope, check_name};
use undertone_api::problem::{Code, Violation};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{consortium, membership};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::{invitation, member as members};

pub use edit::edit;
pub(crate) use overlap::in_force;
pub use overlap::{attest, attest_if, history};

/// The length limit of a description, in characters.
const LONGEST: usize = 1000;

/// Founds a consortium. The caller becomes its admin. The caller's organization, an existing one or one made with it,
/// becomes its first member.
///
/// # Errors
/// 403 for all but the operator, `validation_failed`, `already_exists` when a name is taken.
pub async fn create(ctx: &Ctx, actor: &Actor, new: &NewConsortium) -> Result<Consortium, Error> {
    policy::check(actor, Operation::FoundConsortium, Place::Server)?;
    let violations = violations(actor, new);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let id = ctx
        .db
        .write("found consortium", async |tx| {
            let name = new.name.trim().to_owned();
            if consortium::Entity::find().filter(consortium::Column::Name.eq(&name)).one(tx).await?.is_some() {
                return Err(Error::problem(
                    Code::AlreadyExists,
                    "a consortium of this name exists: choose another name",
                ));
            }
            let id = ctx.id::<ConsortiumId>();
            let description = new.description.trim().to_owned();
            let row = consortium::Model { id: id.0, name, description, created_at: ctx.now() };
            row.into_active_model().insert(tx).await?;
            members::grant(tx, actor.id(), RoleScope::Consortium(id), Role::ConsortiumAdmin).await?;
            if let Some(organization) = new.organization {
                join(ctx, tx, id, organization).await?;
            }
            if let Some(name) = &new.organization_name {
                invitation::create_organization(ctx, tx, actor.id(), id, name).await?;
            }
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::ConsortiumFounded,
                place: Place::Consortium(id),
                subject: Some(("consortium", id.to_string())),
                detail: json!({ "name": new.name.trim() }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok(id)
        })
        .await?;
    tracing::info!(consortium.id = %id, "a consortium was founded");
    load(ctx, id).await
}

/// Returns the caller's consortia, by name; all of them for the operator. Annotators see only the name, without the
/// organizations.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn list(ctx: &Ctx, actor: &Actor) -> Result<Vec<Consortium>, Error> {
    policy::check(actor, Operation::ListConsortia, Place::Server)?;
    let mut query = consortium::Entity::find();
    if !actor.member.operator {
        query = query.filter(consortium::Column::Id.is_in(actor.consortia.keys().map(|id| id.0)));
    }
    let mut all =
        to_consortia(ctx.db.read(), query.order_by_asc(consortium::Column::Name).all(ctx.db.read()).await?).await?;
    for consortium in &mut all {
        if !policy::allows(actor, Operation::ReadConsortium, Place::Consortium(consortium.id)) {
            (consortium.organizations, consortium.overlap) = Default::default();
        }
    }
    Ok(all)
}

/// Returns one consortium.
///
/// # Errors
/// 404 when the caller may not know it.
pub async fn get(ctx: &Ctx, actor: &Actor, id: ConsortiumId) -> Result<Consortium, Error> {
    policy::check(actor, Operation::ReadConsortium, Place::Consortium(id))?;
    load(ctx, id).await
}

/// Adds an organization to a consortium, unless it is a member already.
pub(super) async fn join(ctx: &Ctx, tx: &Tx, id: ConsortiumId, organization: OrganizationId) -> Result<(), Error> {
    if membership::Entity::find_by_id((id.0, organization.0)).one(tx).await?.is_none() {
        let row = membership::Model {
            consortium_id: id.0,
            organization_id: organization.0,
            joined_at: ctx.now(),
            retired_at: None,
        };
        row.into_active_model().insert(tx).await?;
    }
    Ok(())
}

fn violations(actor: &Actor, new: &NewConsortium) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_name("name", &new.name, &mut violations);
    let length = new.description.chars().count();
    if length > LONGEST {
        violations.push(Violation::new("description", format!("use up to {LONGEST} characters, not {length}")));
    }
    if let Some(name) = &new.organization_name {
        check_name("organization_name", name, &mut violations);
        if new.organization.is_some() {
            violations.push(Violation::new("organization_name", "name an organization, or make one: not both"));
        }
    }
    if new.organization.is_some_and(|id| actor.roles_in(id).all(|role| role != Role::OrganizationAdmin)) {
        violations.push(Violation::new("organization", "name an organization of which you are an admin"));
    }
    violations
}

async fn load(ctx: &Ctx, id: ConsortiumId) -> Result<Consortium, Error> {
    let row = consortium::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("consortium"))?;
    to_consortia(ctx.db.read(), vec![row]).await?.pop().ok_or_else(|| Error::not_found("consortium"))
}

async fn to_consortia(
    connection: &impl ConnectionTrait,
    rows: Vec<consortium::Model>,
) -> Result<Vec<Consortium>, Error> {
    let mut organizations: HashMap<Uuid, Vec<OrganizationId>> = HashMap::new();
    let joined = membership::Entity::find()
        .filter(membership::Column::ConsortiumId.is_in(rows.iter().map(|row| row.id)))
        .order_by_asc(membership::Column::OrganizationId);
    for row in joined.all(connection).await? {
        organizations.entry(row.consortium_id).or_default().push(row.organization_id.into());
    }
    let mut rules = in_force(connection, rows.iter().map(|row| row.id)).await?;
    Ok(rows
        .into_iter()
        .map(|row| Consortium {
            id: row.id.into(),
            organizations: organizations.remove(&row.id).unwrap_or_default(),
            overlap: rules.remove(&row.id).unwrap_or_default(),
            name: row.name,
            description: row.description,
            created_at: row.created_at,
        })
        .collect())
}
