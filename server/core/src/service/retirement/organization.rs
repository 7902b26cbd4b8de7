//! Organizations in a consortium: a retired one has no access there. It keeps its members, its workers, its datasets,
//! and its other consortia.

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use serde_json::json;
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::RoleScope;
use undertone_api::organization::Organization;
use undertone_api::retirement::StatedReason;
use uuid::Uuid;

use super::parts::{self, PartsOf};
use super::{
    RetiredSubject, StoredRole, SubjectKind, begin, check_request, end, give_roles_back, in_force, notify_all,
    take_roles,
};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::retirement::RestoreAuthority;
use crate::model::{membership, role};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::AccessNotice;
use crate::service::organization as organizations;
use crate::service::organization::names::load_names;
use crate::service::role::keep_an_admin;

/// Retires an organization from a consortium. Its members lose access to the consortium at once. Members of no other
/// organization in it also lose their roles over the consortium. The organization's parts in the consortium's jobs end
/// by the rule of `parts`.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `validation_failed` for the reason, `wrong_state` when it is retired already or
/// one of its members is the consortium's last admin.
pub async fn retire_organization(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    id: OrganizationId,
    stated: &StatedReason,
) -> Result<Organization, Error> {
    policy::check(actor, Operation::RetireOrganization, Place::Consortium(consortium))?;
    let reason = check_request(actor, stated)?;
    let jobs = ctx
        .db
        .write("retire organization", async |tx| {
            let row = load(tx, consortium, id).await?;
            if row.retired_at.is_some() {
                return Err(Error::wrong_state("the organization is retired from this consortium already"));
            }
            let row = membership::Model { retired_at: Some(ctx.now()), ..row };
            row.into_active_model().reset_all().update(tx).await?;
            let roles = take_roles_over(tx, consortium, id).await?;
            let subject = subject(consortium, id);
            let row = begin(ctx, tx, actor, subject, RestoreAuthority::Consortium, reason, roles.clone()).await?;
            let of = PartsOf::Organization(id, consortium);
            let jobs =
                parts::withdraw(ctx, tx, AuditAuthor::from(actor), of, "it was retired from the consortium").await?;
            let detail = json!({ "reason": reason, "roles_over_consortium": roles.len() });
            record(ctx, tx, actor, consortium, id, AuditAction::OrganizationRetired, detail).await?;
            let name = load_names(tx, [id.0]).await?.remove(&id.0).unwrap_or_default();
            let text = format!("{} retired {name} from the consortium: {reason}", actor.member.name);
            let notice = AccessNotice::retired(row.id, &text).for_organization(id.0).for_consortium(consortium.0);
            notice.send(ctx, tx).await?;
            Ok(jobs)
        })
        .await?;
    parts::clean_up(ctx, &jobs).await;
    notify_all(ctx);
    tracing::info!(organization.id = %id, consortium.id = %consortium, jobs = jobs.len(), "an organization was retired");
    organizations::get_in(ctx, consortium, id).await
}

/// Restores a retired organization in a consortium, with the removed roles over it.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `validation_failed` for the reason, `wrong_state` when it is not retired.
pub async fn restore_organization(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    id: OrganizationId,
    stated: &StatedReason,
) -> Result<Organization, Error> {
    policy::check(actor, Operation::RetireOrganization, Place::Consortium(consortium))?;
    let reason = check_request(actor, stated)?;
    ctx.db
        .write("restore organization", async |tx| {
            let row = load(tx, consortium, id).await?;
            let retired = in_force(tx, subject(consortium, id)).await?;
            let (Some(_), Some(retired)) = (row.retired_at, retired) else {
                return Err(Error::wrong_state("the organization is not retired from this consortium"));
            };
            membership::Model { retired_at: None, ..row }.into_active_model().reset_all().update(tx).await?;
            give_roles_back(tx, &retired).await?;
            let act = retired.id;
            end(ctx, tx, actor, retired, reason).await?;
            let detail = json!({ "reason": reason });
            record(ctx, tx, actor, consortium, id, AuditAction::OrganizationRestored, detail).await?;
            let name = load_names(tx, [id.0]).await?.remove(&id.0).unwrap_or_default();
            let text = format!("{} restored {name} in the consortium: {reason}", actor.member.name);
            let notice = AccessNotice::restored(act, &text).for_organization(id.0).for_consortium(consortium.0);
            notice.send(ctx, tx).await
        })
        .await?;
    notify_all(ctx);
    tracing::info!(organization.id = %id, consortium.id = %consortium, "an organization was restored");
    organizations::get_in(ctx, consortium, id).await
}

/// Removes the roles over a consortium from the members of `id` that belong to it by no other organization.
async fn take_roles_over(tx: &Tx, consortium: ConsortiumId, id: OrganizationId) -> Result<Vec<StoredRole>, Error> {
    let at = |scope: &str| role::Entity::find().filter(role::Column::Scope.eq(scope));
    let own = at("organization").filter(role::Column::ScopeId.eq(id.0)).all(tx).await?;
    let members: Vec<Uuid> = own.into_iter().map(|row| row.member_id).collect();
    let others = membership::Entity::find()
        .filter(membership::Column::ConsortiumId.eq(consortium.0))
        .filter(membership::Column::RetiredAt.is_null())
        .all(tx)
        .await?;
    let elsewhere = at("organization")
        .filter(role::Column::ScopeId.is_in(others.into_iter().map(|row| row.organization_id)))
        .filter(role::Column::MemberId.is_in(members.iter().copied()))
        .all(tx)
        .await?;
    let stays: Vec<Uuid> = elsewhere.into_iter().map(|row| row.member_id).collect();
    let leaving = members.into_iter().filter(|member| !stays.contains(member));
    let over = at("consortium")
        .filter(role::Column::ScopeId.eq(consortium.0))
        .filter(role::Column::MemberId.is_in(leaving))
        .all(tx)
        .await?;
    let mut roles = Vec::new();
    for row in over {
        // One after the other: two admins of one organization may be the last two.
        keep_an_admin(tx, RoleScope::Consortium(consortium), *row.role).await?;
        roles.extend(take_roles(tx, vec![row]).await?);
    }
    Ok(roles)
}

const fn subject(consortium: ConsortiumId, id: OrganizationId) -> RetiredSubject {
    RetiredSubject { kind: SubjectKind::Organization, id: id.0, scope: Some(consortium.0) }
}

async fn load(tx: &Tx, consortium: ConsortiumId, id: OrganizationId) -> Result<membership::Model, Error> {
    let row = membership::Entity::find_by_id((consortium.0, id.0)).one(tx).await?;
    row.ok_or_else(|| Error::not_found("organization in this consortium"))
}

async fn record(
    ctx: &Ctx,
    tx: &Tx,
    actor: &Actor,
    consortium: ConsortiumId,
    id: OrganizationId,
    what: AuditAction,
    detail: serde_json::Value,
) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what,
        place: Place::Consortium(consortium),
        subject: Some(("organization", id.to_string())),
        detail,
    };
    audit_log::record(ctx, tx, act).await
}
