//! Accounts: a retired one cannot sign in, and its keys and links are invalid. An operator uses it in an incident, so
//! that an organization's last admin can be retired too; the last operator cannot.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::MemberId;
use undertone_api::retirement::{AccountState, StatedReason};
use uuid::Uuid;

use super::{
    RetiredSubject, SubjectKind, all_in_force, begin, check_request, end, give_roles_back, in_force, notify_all,
    take_roles, withdraw_links,
};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::retirement::RestoreAuthority;
use crate::model::{member, role};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::AccessNotice;
use crate::service::{api_key, member as members, operator, sessions};

/// Lists the accounts of the server by name, including retired ones.
///
/// # Errors
/// 403 for all but operators.
pub async fn list_accounts(ctx: &Ctx, actor: &Actor) -> Result<Vec<AccountState>, Error> {
    policy::check(actor, Operation::ManageAccounts, Place::Server)?;
    let rows = member::Entity::find()
        .order_by_asc(member::Column::Name)
        .order_by_asc(member::Column::Id)
        .all(ctx.db.read())
        .await?;
    load(ctx, rows).await
}

/// Retires an account: its sessions, roles, API keys and links end at once.
///
/// # Errors
/// 403 for all but operators, 404 for an unknown account, `proof_stale`, `validation_failed` for the reason,
/// `wrong_state` for the last operator, the caller's own account, or one that is retired already.
pub async fn retire_account(
    ctx: &Ctx,
    actor: &Actor,
    id: MemberId,
    stated: &StatedReason,
) -> Result<AccountState, Error> {
    policy::check(actor, Operation::ManageAccounts, Place::Server)?;
    let reason = check_request(actor, stated)?;
    let row = ctx
        .db
        .write("retire account", async |tx| {
            let row = find(tx, id).await?;
            if row.retired_at.is_some() {
                return Err(Error::wrong_state("the account is retired already"));
            }
            if row.operator {
                operator::keep_an_operator(tx).await?;
            }
            if id == actor.id() {
                return Err(Error::wrong_state("this is your own account: have another operator retire it"));
            }
            let name = row.name.clone();
            let row = member::Model { retired_at: Some(ctx.now()), ..row };
            let row = row.into_active_model().reset_all().update(tx).await?;
            let rows = role::Entity::find().filter(role::Column::MemberId.eq(id.0)).all(tx).await?;
            let roles = take_roles(tx, rows).await?;
            let retired =
                begin(ctx, tx, actor, subject(id), RestoreAuthority::Consortium, reason, roles.clone()).await?;
            let ended = sessions::end_all(ctx, tx, id, None).await?;
            let revoked = api_key::revoke_all(ctx, tx, id).await?;
            let withdrawn = withdraw_links(ctx, tx, id, None).await?;
            let detail = json!({
                "reason": reason,
                "roles": roles.len(),
                "sessions_ended": ended,
                "keys_revoked": revoked,
                "links_withdrawn": withdrawn,
            });
            record(ctx, tx, actor, id, AuditAction::AccountRetired, detail).await?;
            let text = format!("{} retired the account of {name}: {reason}", actor.member.name);
            let notice = AccessNotice::retired(retired.id, &text).for_operators().for_organizations(&places(&roles));
            notice.send(ctx, tx).await?;
            Ok(row)
        })
        .await?;
    notify_all(ctx);
    tracing::info!(member.id = %id, "an account was retired");
    one(ctx, row).await
}

/// Restores a retired account with its roles. Sessions and API keys stay ended: the member signs in again.
///
/// # Errors
/// 403 for all but operators, 404 for an unknown account, `proof_stale`, `validation_failed` for the reason,
/// `wrong_state` when it is not retired.
pub async fn restore_account(
    ctx: &Ctx,
    actor: &Actor,
    id: MemberId,
    stated: &StatedReason,
) -> Result<AccountState, Error> {
    policy::check(actor, Operation::ManageAccounts, Place::Server)?;
    let reason = check_request(actor, stated)?;
    let row = ctx
        .db
        .write("restore account", async |tx| {
            let row = find(tx, id).await?;
            let retired = in_force(tx, subject(id)).await?;
            let (Some(_), Some(retired)) = (row.retired_at, retired) else {
                return Err(Error::wrong_state("the account is not retired"));
            };
            let name = row.name.clone();
            let row = member::Model { retired_at: None, ..row }.into_active_model().reset_all().update(tx).await?;
            let roles = give_roles_back(tx, &retired).await?;
            let act = retired.id;
            end(ctx, tx, actor, retired, reason).await?;
            let detail = json!({ "reason": reason, "roles": roles.len() });
            record(ctx, tx, actor, id, AuditAction::AccountRestored, detail).await?;
            let text = format!("{} restored the account of {name}: {reason}", actor.member.name);
            let notice = AccessNotice::restored(act, &text).for_member(id.0).for_operators();
            notice.for_organizations(&places(&roles)).send(ctx, tx).await?;
            Ok(row)
        })
        .await?;
    notify_all(ctx);
    tracing::info!(member.id = %id, "an account was restored");
    one(ctx, row).await
}

/// Returns the organizations of roles.
fn places(roles: &[super::StoredRole]) -> Vec<Uuid> {
    let organization = |stored: &super::StoredRole| match stored.grant.scope {
        undertone_api::member::RoleScope::Organization(id) => Some(id.0),
        undertone_api::member::RoleScope::Consortium(_) => None,
    };
    let mut ids: Vec<Uuid> = roles.iter().filter_map(organization).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

const fn subject(id: MemberId) -> RetiredSubject {
    RetiredSubject { kind: SubjectKind::Account, id: id.0, scope: None }
}

async fn find(tx: &Tx, id: MemberId) -> Result<member::Model, Error> {
    member::Entity::find_by_id(id.0).one(tx).await?.ok_or_else(|| Error::not_found("account"))
}

async fn one(ctx: &Ctx, row: member::Model) -> Result<AccountState, Error> {
    load(ctx, vec![row]).await?.pop().ok_or_else(|| Error::not_found("account"))
}

async fn load(ctx: &Ctx, rows: Vec<member::Model>) -> Result<Vec<AccountState>, Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut retired = all_in_force(ctx.db.read(), SubjectKind::Account, &ids, None).await?;
    let all = members::all_with_grants(ctx.db.read(), rows).await?;
    let state = |member: undertone_api::member::Member| {
        let retirement = retired.remove(&member.id.0).map(Into::into);
        AccountState { member, retirement }
    };
    Ok(all.into_iter().map(state).collect())
}

async fn record(
    ctx: &Ctx,
    tx: &Tx,
    actor: &Actor,
    id: MemberId,
    what: AuditAction,
    detail: serde_json::Value,
) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what,
        place: Place::Server,
        subject: Some(("member", id.to_string())),
        detail,
    };
    audit_log::record(ctx, tx, act).await
}
