//! Members of an organization: a retired one has no role there, no session anywhere, and no API key unless a role
//! elsewhere remains.

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _};
use serde_json::json;
use undertone_api::id::{MemberId, OrganizationId};
use undertone_api::member::{Member, Role, RoleScope};
use undertone_api::retirement::{RetiredMember, StatedReason};

use super::{
    RetiredSubject, SubjectKind, authority_of, begin, check_authority, check_request, end, give_roles_back, in_force,
    notify_all, take_roles, withdraw_links,
};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::role::ScopeKind;
use crate::model::{member, retirement, role};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::AccessNotice;
use crate::service::organization::names::load_names;
use crate::service::role::keep_an_admin;
use crate::service::{api_key, member as members, sessions};

/// Retires a member at an organization: their roles there, their sessions, and their links end at once. Their API keys
/// are revoked when they have no remaining role.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `validation_failed` for the reason, `wrong_state` for the last admin.
pub async fn retire_member(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    id: MemberId,
    stated: &StatedReason,
) -> Result<RetiredMember, Error> {
    let place = Place::Organization(organization);
    policy::check(actor, Operation::RetireMember, place)?;
    let reason = check_request(actor, stated)?;
    let row = ctx
        .db
        .write("retire member", async |tx| {
            let person = member::Entity::find_by_id(id.0).one(tx).await?;
            let person = person.ok_or_else(|| Error::not_found("member"))?;
            let rows = roles_at(organization, id).all(tx).await?;
            if rows.is_empty() {
                return Err(Error::not_found("member"));
            }
            for row in &rows {
                keep_an_admin(tx, RoleScope::Organization(organization), *row.role).await?;
            }
            let roles = take_roles(tx, rows).await?;
            let subject = subject(organization, id);
            let row = begin(ctx, tx, actor, subject, authority_of(actor, place), reason, roles.clone()).await?;
            let ended = sessions::end_all(ctx, tx, id, None).await?;
            let remaining = role::Entity::find().filter(role::Column::MemberId.eq(id.0)).count(tx).await?;
            let is_left = remaining > 0 || person.operator;
            let revoked = if is_left { 0 } else { api_key::revoke_all(ctx, tx, id).await? };
            let withdrawn = withdraw_links(ctx, tx, id, Some(organization)).await?;
            let detail = json!({
                "reason": reason,
                "sessions_ended": ended,
                "keys_revoked": revoked,
                "links_withdrawn": withdrawn,
            });
            record(ctx, tx, actor, organization, id, AuditAction::MemberRetired, detail).await?;
            let name = organization_name(tx, organization).await?;
            let text = format!("{} retired {} at {name}: {reason}", actor.member.name, person.name);
            let notice = AccessNotice::retired(row.id, &text).for_member(id.0).for_organization(organization.0);
            notice.send(ctx, tx).await?;
            Ok(row)
        })
        .await?;
    notify_all(ctx);
    tracing::info!(member.id = %id, organization.id = %organization, "a member was retired");
    load(ctx, row).await
}

/// Restores a retired member, with their former roles at the organization.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `validation_failed` for the reason, `wrong_state` when they are not retired.
pub async fn restore_member(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    id: MemberId,
    stated: &StatedReason,
) -> Result<Member, Error> {
    let place = Place::Organization(organization);
    policy::check(actor, Operation::RetireMember, place)?;
    let reason = check_request(actor, stated)?;
    let person = ctx
        .db
        .write("restore member", async |tx| {
            let person = member::Entity::find_by_id(id.0).one(tx).await?;
            let person = person.ok_or_else(|| Error::not_found("member"))?;
            let retired = in_force(tx, subject(organization, id)).await?;
            let retired = retired.ok_or_else(|| Error::not_found("retired member"))?;
            if person.retired_at.is_some() {
                return Err(Error::wrong_state("the member's account is retired: an operator restores it first"));
            }
            check_authority(actor, place, &retired)?;
            give_roles_back(tx, &retired).await?;
            let act = retired.id;
            end(ctx, tx, actor, retired, reason).await?;
            let detail = json!({ "reason": reason });
            record(ctx, tx, actor, organization, id, AuditAction::MemberRestored, detail).await?;
            let name = organization_name(tx, organization).await?;
            let text = format!("{} restored {} at {name}: {reason}", actor.member.name, person.name);
            let notice = AccessNotice::restored(act, &text).for_member(id.0).for_organization(organization.0);
            notice.send(ctx, tx).await?;
            Ok(person)
        })
        .await?;
    notify_all(ctx);
    tracing::info!(member.id = %id, organization.id = %organization, "a member was restored");
    let member = members::with_grants(ctx.db.read(), person).await?;
    let scope = RoleScope::Organization(organization);
    let grants = member.grants.iter().filter(|grant| grant.scope == scope).copied().collect();
    Ok(Member { grants, ..member })
}

/// Lists the retired members of an organization, the last retired first.
///
/// # Errors
/// 404 and 403 as usual: the list is for the organization's admins.
pub async fn list_retired_members(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
) -> Result<Vec<RetiredMember>, Error> {
    policy::check(actor, Operation::RetireMember, Place::Organization(organization))?;
    let rows = retirement::Entity::find()
        .filter(retirement::Column::Kind.eq(SubjectKind::Member.to_text()))
        .filter(retirement::Column::ScopeId.eq(organization.0))
        .filter(retirement::Column::RestoredAt.is_null())
        .order_by_desc(retirement::Column::Id)
        .all(ctx.db.read())
        .await?;
    let mut members = Vec::with_capacity(rows.len());
    for row in rows {
        members.push(load(ctx, row).await?);
    }
    Ok(members)
}

/// Checks that a member is not retired at an organization before a grant of roles: an old link must not restore them.
///
/// # Errors
/// `wrong_state` when they are retired.
pub(crate) async fn check_not_retired(tx: &Tx, organization: OrganizationId, id: MemberId) -> Result<(), Error> {
    if in_force(tx, subject(organization, id)).await?.is_none() {
        return Ok(());
    }
    Err(Error::wrong_state("this member is retired at the organization: one of its admins restores them"))
}

const fn subject(organization: OrganizationId, id: MemberId) -> RetiredSubject {
    RetiredSubject { kind: SubjectKind::Member, id: id.0, scope: Some(organization.0) }
}

fn roles_at(organization: OrganizationId, id: MemberId) -> sea_orm::Select<role::Entity> {
    role::Entity::find()
        .filter(role::Column::Scope.eq(ScopeKind::Organization.to_text()))
        .filter(role::Column::ScopeId.eq(organization.0))
        .filter(role::Column::MemberId.eq(id.0))
}

async fn organization_name(tx: &Tx, id: OrganizationId) -> Result<String, Error> {
    Ok(load_names(tx, [id.0]).await?.remove(&id.0).unwrap_or_default())
}

async fn load(ctx: &Ctx, row: retirement::Model) -> Result<RetiredMember, Error> {
    let person = member::Entity::find_by_id(row.subject_id).one(ctx.db.read()).await?;
    let person = person.ok_or_else(|| Error::not_found("member"))?;
    let stored = row.roles.to_vec();
    let roles: Vec<Role> = stored.iter().map(|stored| stored.grant.role).collect();
    let member = Member { grants: Vec::new(), ..members::with_grants(ctx.db.read(), person).await? };
    Ok(RetiredMember { member, roles, retirement: row.into() })
}

async fn record(
    ctx: &Ctx,
    tx: &Tx,
    actor: &Actor,
    organization: OrganizationId,
    id: MemberId,
    what: AuditAction,
    detail: serde_json::Value,
) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what,
        place: Place::Organization(organization),
        subject: Some(("member", id.to_string())),
        detail,
    };
    audit_log::record(ctx, tx, act).await
}
