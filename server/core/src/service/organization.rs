//! Organizations: owners of datasets and workers.

pub(crate) mod names;

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
};
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::organization::Organization;
use undertone_api::problem::Code;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::retirement::SubjectKind;
use crate::model::role::ScopeKind;
use crate::model::{dataset, membership, organization, role};
use crate::service::retirement;
use crate::service::worker;

/// Returns every organization that the caller may see, by name; all of them for the operator.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn list(ctx: &Ctx, actor: &Actor) -> Result<Vec<Organization>, Error> {
    policy::check(actor, Operation::ListOrganizations, Place::Server)?;
    let mut query = organization::Entity::find();
    if !actor.member.operator {
        let peers = actor.consortia.values().flatten().copied();
        let visible = actor.organizations().into_iter().chain(peers);
        let visible = visible.filter(|id| policy::allows(actor, Operation::ReadOrganization, Place::Organization(*id)));
        query = query.filter(organization::Column::Id.is_in(visible.map(|id| id.0)));
    }
    to_organizations(ctx, query.order_by_asc(organization::Column::Name).all(ctx.db.read()).await?).await
}

/// Returns the organizations of a consortium, by name.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn in_consortium(ctx: &Ctx, actor: &Actor, id: ConsortiumId) -> Result<Vec<Organization>, Error> {
    policy::check(actor, Operation::ReadConsortium, Place::Consortium(id))?;
    let joined =
        membership::Entity::find().filter(membership::Column::ConsortiumId.eq(id.0)).all(ctx.db.read()).await?;
    let rows = organization::Entity::find()
        .filter(organization::Column::Id.is_in(joined.into_iter().map(|row| row.organization_id)))
        .order_by_asc(organization::Column::Name)
        .all(ctx.db.read())
        .await?;
    let mut all = to_organizations(ctx, rows).await?;
    let ids: Vec<Uuid> = all.iter().map(|organization| organization.id.0).collect();
    let kind = SubjectKind::Organization;
    let mut retired = retirement::all_in_force(ctx.db.read(), kind, &ids, Some(id.0)).await?;
    for organization in &mut all {
        organization.retirement = retired.remove(&organization.id.0).map(Into::into);
    }
    Ok(all)
}

/// Returns an organization with its state in a consortium. The caller has checked the policy.
///
/// # Errors
/// 404 when there is none.
pub(super) async fn get_in(ctx: &Ctx, consortium: ConsortiumId, id: OrganizationId) -> Result<Organization, Error> {
    let row = organization::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("organization"))?;
    let mut organization =
        to_organizations(ctx, vec![row]).await?.pop().ok_or_else(|| Error::not_found("organization"))?;
    let kind = SubjectKind::Organization;
    let retired = retirement::all_in_force(ctx.db.read(), kind, &[id.0], Some(consortium.0)).await?;
    organization.retirement = retired.into_values().next().map(Into::into);
    Ok(organization)
}

/// Returns one organization.
///
/// # Errors
/// 404 when the caller may not know it.
pub async fn get(ctx: &Ctx, actor: &Actor, id: OrganizationId) -> Result<Organization, Error> {
    policy::check(actor, Operation::ReadOrganization, Place::Organization(id))?;
    let row = organization::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("organization"))?;
    to_organizations(ctx, vec![row]).await?.pop().ok_or_else(|| Error::not_found("organization"))
}

/// Makes an organization.
///
/// # Errors
/// `already_exists` when the name is taken.
pub(super) async fn insert(ctx: &Ctx, tx: &Tx, name: &str) -> Result<OrganizationId, Error> {
    let name = name.trim();
    if organization::Entity::find().filter(organization::Column::Name.eq(name)).one(tx).await?.is_some() {
        return Err(Error::problem(Code::AlreadyExists, "an organization of this name exists: choose another name"));
    }
    let id = ctx.id::<OrganizationId>();
    let row = organization::Model { id: id.0, name: name.to_owned(), created_at: ctx.now() };
    row.into_active_model().insert(tx).await?;
    Ok(id)
}

async fn to_organizations(ctx: &Ctx, rows: Vec<organization::Model>) -> Result<Vec<Organization>, Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut members: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    let grants = role::Entity::find()
        .filter(role::Column::Scope.eq(ScopeKind::Organization.to_text()))
        .filter(role::Column::ScopeId.is_in(ids.clone()));
    for row in grants.all(ctx.db.read()).await? {
        members.entry(row.scope_id).or_default().push(row.member_id);
    }
    let mut datasets: HashMap<Uuid, u32> = HashMap::new();
    let query = dataset::Entity::find().filter(dataset::Column::OrganizationId.is_in(ids.clone()));
    for row in query.all(ctx.db.read()).await? {
        *datasets.entry(row.organization_id).or_default() += 1;
    }
    let mut workers = worker::of_organizations(ctx, &ids).await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let mut people = members.remove(&row.id).unwrap_or_default();
            people.sort_unstable();
            people.dedup();
            Organization {
                id: row.id.into(),
                members: people.len() as u32,
                datasets: datasets.remove(&row.id).unwrap_or_default(),
                workers: workers.remove(&row.id).unwrap_or_default(),
                name: row.name,
                created_at: row.created_at,
                retirement: None,
            }
        })
        .collect())
}
