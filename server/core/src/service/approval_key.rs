//! Keys with which members approve jobs as stewards. The public halves are listed so that their owner can hand them to
//! a site's operator. A listed key approves nothing by itself: sites pin keys at their own terminals.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::approval_key::{MOST_OWN_APPROVAL_KEYS, NewApprovalKey, OwnApprovalKey};
use undertone_api::id::ApprovalKeyId;
use undertone_api::problem::Violation;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::approval_key;
use crate::model::column::JsonColumn;
use crate::service::audit_log::{self, AuditAction, NewAuditEntry};
use crate::service::notification::credential::{self, CredentialChange};

/// Lists a key of the caller.
///
/// # Errors
/// `forbidden` for a caller with an API key; `proof_stale`; `validation_failed` with every violation, also when there are
/// 20 already.
pub async fn create(ctx: &Ctx, actor: &Actor, new: &NewApprovalKey) -> Result<OwnApprovalKey, Error> {
    policy::check(actor, Operation::ManageApprovalKeys, Place::Server)?;
    policy::check_fresh(actor)?;
    let violations = new.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let fingerprint = new.key.fingerprint();
    let row = approval_key::Model {
        id: ctx.id::<ApprovalKeyId>().0,
        member_id: actor.id().0,
        label: new.label.trim().to_owned(),
        key: JsonColumn::new(new.key.clone())?,
        fingerprint: fingerprint.to_string(),
        created_at: ctx.now(),
    };
    ctx.db
        .write("list approval key", async |tx| {
            let own = approval_key::Entity::find().filter(approval_key::Column::MemberId.eq(actor.id().0));
            if own.clone().count(tx).await? >= MOST_OWN_APPROVAL_KEYS {
                let remedy = format!("{MOST_OWN_APPROVAL_KEYS} are the most: remove one first");
                return Err(Error::validation(vec![Violation::new("label", remedy)]));
            }
            if own.filter(approval_key::Column::Fingerprint.eq(&row.fingerprint)).one(tx).await?.is_some() {
                return Err(Error::validation(vec![Violation::new("key", "it is listed already")]));
            }
            row.clone().into_active_model().insert(tx).await?;
            let detail = json!({ "fingerprint": row.fingerprint, "kind": new.key.label() });
            audit_log::record(ctx, tx, act(actor, AuditAction::ApprovalKeyAdded, row.id.into(), detail)).await?;
            let change = CredentialChange::ApprovalKeyAdded { fingerprint: fingerprint.as_str() };
            credential::announce(ctx, tx, actor.id(), change).await
        })
        .await?;
    ctx.changes().notify();
    Ok(row.into())
}

/// Returns the caller's own keys, newest first.
///
/// # Errors
/// `forbidden` for a caller with an API key.
pub async fn list(ctx: &Ctx, actor: &Actor) -> Result<Vec<OwnApprovalKey>, Error> {
    policy::check(actor, Operation::ManageApprovalKeys, Place::Server)?;
    let rows = approval_key::Entity::find()
        .filter(approval_key::Column::MemberId.eq(actor.id().0))
        .order_by_desc(approval_key::Column::Id)
        .all(ctx.db.read())
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Removes a key of the caller from the list. Sites that pin it accept it until their operators remove it.
///
/// # Errors
/// `forbidden` for a caller with an API key; `proof_stale`; 404 for a key of another member.
pub async fn remove(ctx: &Ctx, actor: &Actor, id: ApprovalKeyId) -> Result<(), Error> {
    policy::check(actor, Operation::ManageApprovalKeys, Place::Server)?;
    policy::check_fresh(actor)?;
    ctx.db
        .write("remove approval key", async |tx| {
            let row = approval_key::Entity::find_by_id(id.0).one(tx).await?;
            let row =
                row.filter(|row| row.member_id == actor.id().0).ok_or_else(|| Error::not_found("approval key"))?;
            approval_key::Entity::delete_by_id(row.id).exec(tx).await?;
            let detail = json!({ "fingerprint": row.fingerprint });
            audit_log::record(ctx, tx, act(actor, AuditAction::ApprovalKeyRemoved, id, detail)).await?;
            let change = CredentialChange::ApprovalKeyRemoved { fingerprint: &row.fingerprint };
            credential::announce(ctx, tx, actor.id(), change).await
        })
        .await?;
    ctx.changes().notify();
    Ok(())
}

fn act<'a>(actor: &Actor, what: AuditAction, id: ApprovalKeyId, detail: serde_json::Value) -> NewAuditEntry<'a> {
    NewAuditEntry {
        by: actor.into(),
        what,
        place: Place::Server,
        subject: Some(("approval_key", id.to_string())),
        detail,
    }
}
