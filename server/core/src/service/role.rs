//! Roles after the invitation: roles at an organization and over a consortium, and the removal of members. The last
//! admin of a place cannot be removed, so that an admin always remains.

#[cfg(test)]
mod tests;

use sea_orm::{
    ColumnTrait as _, EntityTrait as _, ModelTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
};
use serde_json::{Value, json};
use undertone_api::id::{ConsortiumId, MemberId, OrganizationId};
use undertone_api::member::{Member, NewConsortiumMember, Role, RoleAssignment, RoleScope};
use undertone_api::problem::{Code, Violation};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::role::ScopeKind;
use crate::model::{member, membership, role};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::{member as members, retirement};

/// The roles of an organization.
const OF_ORGANIZATION: [Role; 5] =
    [Role::OrganizationAdmin, Role::DataSteward, Role::Researcher, Role::Auditor, Role::Annotator];
/// The roles over a consortium.
const OF_CONSORTIUM: [Role; 3] = [Role::ConsortiumAdmin, Role::Auditor, Role::Annotator];

/// Replaces the roles of a member at an organization.
///
/// # Errors
/// 404 when they are no member, `proof_stale`, `validation_failed` for roles that an organization does not give, `wrong_state` for the
/// last admin.
pub async fn assign(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    member: MemberId,
    roles: &RoleAssignment,
) -> Result<Member, Error> {
    policy::check(actor, Operation::AssignRole, Place::Organization(organization))?;
    policy::check_fresh(actor)?;
    let roles = check_roles(roles, &OF_ORGANIZATION, "an organization")?;
    change(ctx, actor, RoleScope::Organization(organization), member, &roles).await
}

/// Removes every role of a member at an organization. Their account, and their roles elsewhere, stay.
///
/// # Errors
/// 404 when they are no member, `proof_stale`, `wrong_state` for the last admin.
pub async fn remove(ctx: &Ctx, actor: &Actor, organization: OrganizationId, member: MemberId) -> Result<(), Error> {
    policy::check(actor, Operation::RemoveMember, Place::Organization(organization))?;
    policy::check_fresh(actor)?;
    change(ctx, actor, RoleScope::Organization(organization), member, &[]).await.map(|_| ())
}

/// Confirms, as an admin, that a typed e-mail address belongs to the member. Roles over a consortium are given by
/// address, so an unconfirmed address does not count there.
///
/// # Errors
/// 404 for a non-member, `proof_stale`, `wrong_state` for the caller's own address.
pub async fn confirm_address(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    member: MemberId,
) -> Result<(), Error> {
    policy::check(actor, Operation::ConfirmAddress, Place::Organization(organization))?;
    policy::check_fresh(actor)?;
    if member == actor.id() {
        return Err(Error::wrong_state("this is your own address: another admin, or an operator, confirms it"));
    }
    let scope = RoleScope::Organization(organization);
    ctx.db
        .write("confirm address", async |tx| {
            if select_roles(scope).filter(role::Column::MemberId.eq(member.0)).count(tx).await? == 0 {
                return Err(Error::not_found("member"));
            }
            members::mark_address_confirmed(ctx, tx, member).await?;
            record(ctx, tx, actor, scope, member, AuditAction::AddressConfirmed, json!({})).await
        })
        .await
}

/// Returns the members with a role over a consortium itself, by name, with those roles.
///
/// # Errors
/// 404 and 403 as usual.
pub async fn list_consortium_members(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId) -> Result<Vec<Member>, Error> {
    policy::check(actor, Operation::AssignConsortiumRole, Place::Consortium(consortium))?;
    let scope = RoleScope::Consortium(consortium);
    let grants = select_roles(scope).all(ctx.db.read()).await?;
    let rows = member::Entity::find()
        .filter(member::Column::Id.is_in(grants.iter().map(|row| row.member_id)))
        .order_by_asc(member::Column::Name)
        .order_by_asc(member::Column::Id)
        .all(ctx.db.read())
        .await?;
    let all = members::all_with_grants(ctx.db.read(), rows).await?;
    Ok(all.into_iter().map(|member| there(member, scope)).collect())
}

/// Gives a member of a consortium a role over it, by their e-mail address.
///
/// # Errors
/// 404 when nobody in the consortium has the e-mail, `proof_stale`, `wrong_state` for an address that is not confirmed,
/// `validation_failed` for roles that a consortium does not give.
pub async fn add_consortium_member(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    new: &NewConsortiumMember,
) -> Result<Member, Error> {
    policy::check(actor, Operation::AssignConsortiumRole, Place::Consortium(consortium))?;
    policy::check_fresh(actor)?;
    let roles = RoleAssignment { roles: new.roles.clone() };
    let mut roles = check_roles(&roles, &OF_CONSORTIUM, "a consortium")?;
    let row = members::by_email(ctx.db.read(), &new.email).await?;
    let row = row.ok_or_else(|| Error::not_found("member of the consortium"))?;
    let is_confirmed = row.address_confirmed_at.is_some();
    let member = members::with_grants(ctx.db.read(), row).await?;
    if !members::standing_of(ctx.db.read(), &member.grants).await?.consortia.contains_key(&consortium) {
        return Err(Error::not_found("member of the consortium"));
    }
    if !is_confirmed {
        return Err(Error::wrong_state(
            "this member's e-mail address is as they typed it: have an admin of their organization, or an operator, confirm it first",
        ));
    }
    let scope = RoleScope::Consortium(consortium);
    roles.extend(member.grants.iter().filter(|grant| grant.scope == scope).map(|grant| grant.role));
    roles.sort_unstable();
    roles.dedup();
    change(ctx, actor, scope, member.id, &roles).await
}

/// Replaces the roles of a member over a consortium; an empty list removes all.
///
/// # Errors
/// 404 when they have no role in the consortium, `proof_stale`, `validation_failed` for roles that a consortium does not give,
/// `wrong_state` for the last admin.
pub async fn assign_consortium_roles(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    member: MemberId,
    roles: &RoleAssignment,
) -> Result<Member, Error> {
    policy::check(actor, Operation::AssignConsortiumRole, Place::Consortium(consortium))?;
    policy::check_fresh(actor)?;
    let roles = if roles.roles.is_empty() { Vec::new() } else { check_roles(roles, &OF_CONSORTIUM, "a consortium")? };
    change(ctx, actor, RoleScope::Consortium(consortium), member, &roles).await
}

/// Returns the roles without duplicates, if the place can give them.
fn check_roles(roles: &RoleAssignment, given: &[Role], place: &str) -> Result<Vec<Role>, Error> {
    let mut violations = Vec::new();
    if roles.roles.is_empty() {
        violations.push(Violation::new("roles", "name at least one role, or remove the member"));
    }
    for (index, role) in roles.roles.iter().enumerate() {
        if !given.contains(role) {
            violations.push(Violation::new(format!("roles.{index}"), format!("{place} cannot give this role")));
        }
    }
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let mut roles = roles.roles.clone();
    roles.sort_unstable();
    roles.dedup();
    Ok(roles)
}

/// Changes the roles at a place to `wanted`, and logs each added or removed one. A person without a role there is not a
/// member of the place; for a consortium, membership by an organization is enough.
async fn change(
    ctx: &Ctx,
    actor: &Actor,
    scope: RoleScope,
    member: MemberId,
    wanted: &[Role],
) -> Result<Member, Error> {
    let row = ctx
        .db
        .write("change roles", async |tx| {
            let missing = || Error::not_found("member");
            let row = member::Entity::find_by_id(member.0).one(tx).await?.ok_or_else(missing)?;
            let rows = select_roles(scope).filter(role::Column::MemberId.eq(member.0)).all(tx).await?;
            if rows.is_empty() && !stands(tx, scope, member).await? {
                return Err(missing());
            }
            let mut had = Vec::with_capacity(rows.len());
            for row in rows {
                let role = *row.role;
                had.push(role);
                if !wanted.contains(&role) {
                    keep_an_admin(tx, scope, role).await?;
                    row.delete(tx).await?;
                    record(ctx, tx, actor, scope, member, AuditAction::RoleRevoked, json!({ "role": role })).await?;
                }
            }
            for role in wanted.iter().filter(|role| !had.contains(role)) {
                members::grant(tx, member, scope, *role).await?;
                record(ctx, tx, actor, scope, member, AuditAction::RoleGranted, json!({ "role": role })).await?;
            }
            if wanted.is_empty() {
                if let RoleScope::Organization(organization) = scope {
                    retirement::withdraw_links(ctx, tx, member, Some(organization)).await?;
                }
                record(ctx, tx, actor, scope, member, AuditAction::MemberRemoved, json!({})).await?;
            }
            Ok(row)
        })
        .await?;
    ctx.changes().notify_standings();
    tracing::info!(member.id = %member, "roles were changed");
    Ok(there(members::with_grants(ctx.db.read(), row).await?, scope))
}

/// Returns whether a member without a role over a consortium belongs to it by an organization.
async fn stands(tx: &Tx, scope: RoleScope, member: MemberId) -> Result<bool, Error> {
    let RoleScope::Consortium(consortium) = scope else { return Ok(false) };
    let own = role::Entity::find()
        .filter(role::Column::Scope.eq(ScopeKind::Organization.to_text()))
        .filter(role::Column::MemberId.eq(member.0))
        .all(tx)
        .await?;
    let joined = membership::Entity::find()
        .filter(membership::Column::ConsortiumId.eq(consortium.0))
        .filter(membership::Column::RetiredAt.is_null())
        .filter(membership::Column::OrganizationId.is_in(own.into_iter().map(|row| row.scope_id)))
        .count(tx)
        .await?;
    Ok(joined > 0)
}

/// Fails if the role is that of the last admin.
pub(super) async fn keep_an_admin(tx: &Tx, scope: RoleScope, role: Role) -> Result<(), Error> {
    let admin = match scope {
        RoleScope::Consortium(_) => Role::ConsortiumAdmin,
        RoleScope::Organization(_) => Role::OrganizationAdmin,
    };
    if role == admin && select_roles(scope).filter(role::Column::Role.eq(admin.to_text())).count(tx).await? < 2 {
        return Err(Error::problem(Code::WrongState, "this is the last admin: make somebody else an admin first"));
    }
    Ok(())
}

/// Selects all members' roles at a place.
fn select_roles(scope: RoleScope) -> sea_orm::Select<role::Entity> {
    let (kind, id) = ScopeKind::columns(scope);
    role::Entity::find().filter(role::Column::Scope.eq(kind.to_text())).filter(role::Column::ScopeId.eq(id))
}

/// Returns the member as visible at a place: without roles elsewhere.
fn there(member: Member, scope: RoleScope) -> Member {
    let grants = member.grants.iter().filter(|grant| grant.scope == scope).copied().collect();
    Member { grants, ..member }
}

async fn record(
    ctx: &Ctx,
    tx: &Tx,
    actor: &Actor,
    scope: RoleScope,
    member: MemberId,
    what: AuditAction,
    detail: Value,
) -> Result<(), Error> {
    let place = match scope {
        RoleScope::Consortium(id) => Place::Consortium(id),
        RoleScope::Organization(id) => Place::Organization(id),
    };
    let subject = Some(("member", member.to_string()));
    audit_log::record(ctx, tx, NewAuditEntry { by: AuditAuthor::from(actor), what, place, subject, detail }).await
}
