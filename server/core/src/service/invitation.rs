//! One-time links with which people and organizations join. A link is valid for 7 days and works once; the server
//! stores only the hash of its secret.

mod accept;
mod join;
#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use time::Duration;
use undertone_api::id::{InvitationId, MemberId};
use undertone_api::member::{Role, check_name};
use undertone_api::organization::{Invitation, InvitationPreview, InvitationPurpose, NewInvitation};
use undertone_api::problem::{Code, Violation};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, JsonColumn};
use crate::model::invitation::LinkPurpose;
use crate::model::{consortium, invitation, organization};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::operator;

pub use accept::accept;
pub(super) use accept::create_organization;
pub use join::join;

/// The validity of a link.
pub const LIFETIME: Duration = Duration::days(7);

/// Makes a link that brings an organization or an annotator into a consortium, a member into an organization, or
/// another operator to the server.
///
/// # Errors
/// 404 and 403 as usual; `validation_failed` for roles that an organization cannot give.
pub async fn create(ctx: &Ctx, actor: &Actor, new: &NewInvitation) -> Result<Invitation, Error> {
    let (operation, place) = required_operation(&new.purpose);
    policy::check(actor, operation, place)?;
    policy::check_fresh(actor)?;
    let mut violations = Vec::new();
    check_name("label", &new.label, &mut violations);
    if let InvitationPurpose::Member { roles, .. } = &new.purpose {
        if roles.is_empty() {
            violations.push(Violation::new("roles", "name at least one role"));
        }
        for (index, role) in roles.iter().enumerate() {
            if *role == Role::ConsortiumAdmin {
                violations.push(Violation::new(format!("roles.{index}"), "an organization cannot give this role"));
            }
        }
    }
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let secret = ctx.random.secret();
    let row = ctx
        .db
        .write("invite", async |tx| {
            exists(tx, &new.purpose).await?;
            let row = insert(ctx, tx, &new.purpose, new.label.trim(), Some(actor.id()), &secret).await?;
            let (what, detail) = match &new.purpose {
                InvitationPurpose::Operator => (AuditAction::OperatorInvited, json!({})),
                InvitationPurpose::Member { .. } => (AuditAction::MemberInvited, json!({ "roles": *row.roles })),
                InvitationPurpose::Organization { .. } => (AuditAction::OrganizationInvited, json!({})),
                InvitationPurpose::Annotator { .. } => (AuditAction::AnnotatorInvited, json!({})),
            };
            let subject = Some(("invitation", row.id.to_string()));
            audit_log::record(ctx, tx, NewAuditEntry { by: AuditAuthor::from(actor), what, place, subject, detail })
                .await?;
            if new.purpose == InvitationPurpose::Operator {
                operator::announce_invitation(ctx, tx, row.id, &actor.member.name).await?;
            }
            Ok(row)
        })
        .await?;
    let link = Some(link(ctx, &secret));
    Ok(Invitation { link, ..Invitation::try_from(row)? })
}

/// Returns every link into a place, newest first.
///
/// # Errors
/// 404 and 403 as usual.
pub async fn list(ctx: &Ctx, actor: &Actor, purpose: &InvitationPurpose) -> Result<Vec<Invitation>, Error> {
    let (operation, place) = required_operation(purpose);
    policy::check(actor, operation, place)?;
    let (kind, scope) = columns(purpose);
    let in_place = scope.map_or_else(|| invitation::Column::ScopeId.is_null(), |id| invitation::Column::ScopeId.eq(id));
    let rows = invitation::Entity::find()
        .filter(invitation::Column::Purpose.eq(kind.to_text()))
        .filter(in_place)
        .order_by_desc(invitation::Column::Id)
        .all(ctx.db.read())
        .await?;
    rows.into_iter().map(Invitation::try_from).collect()
}

/// Withdraws an unused link with immediate effect. Withdrawing it again changes nothing.
///
/// # Errors
/// 404 when the place has no such link, 403 as usual, `wrong_state` when it was used.
pub async fn withdraw(ctx: &Ctx, actor: &Actor, place: Place, id: InvitationId) -> Result<(), Error> {
    let row = invitation::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("invitation"))?;
    let (operation, at) = required_operation(&InvitationPurpose::try_from(&row)?);
    policy::check(actor, operation, at)?;
    if at != place {
        return Err(Error::not_found("invitation"));
    }
    ctx.db
        .write("withdraw invitation", async |tx| {
            let row = invitation::Entity::find_by_id(id.0).one(tx).await?;
            let row = row.ok_or_else(|| Error::not_found("invitation"))?;
            if row.used_at.is_some() {
                return Err(Error::wrong_state("the link was used: remove the member instead"));
            }
            if row.withdrawn_at.is_some() {
                return Ok(());
            }
            let row = invitation::Model { withdrawn_at: Some(ctx.now()), ..row };
            row.into_active_model().reset_all().update(tx).await?;
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::InvitationWithdrawn,
                place,
                subject: Some(("invitation", id.to_string())),
                detail: json!({}),
            };
            audit_log::record(ctx, tx, act).await
        })
        .await
}

/// Returns the purpose of a link, for its holder.
///
/// # Errors
/// `link_spent` when it was used, has expired, or never existed; these are not distinguished.
pub async fn preview(ctx: &Ctx, secret: &str) -> Result<InvitationPreview, Error> {
    let row = open(ctx, ctx.db.read(), secret).await?;
    let purpose = InvitationPurpose::try_from(&row)?;
    let from = match &purpose {
        InvitationPurpose::Operator => None,
        InvitationPurpose::Organization { consortium } | InvitationPurpose::Annotator { consortium } => {
            consortium::Entity::find_by_id(consortium.0).one(ctx.db.read()).await?.map(|row| row.name)
        }
        InvitationPurpose::Member { organization, .. } => {
            organization::Entity::find_by_id(organization.0).one(ctx.db.read()).await?.map(|row| row.name)
        }
    };
    Ok(InvitationPreview { purpose, from })
}

/// Returns the row of a valid link.
pub(super) async fn open(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    secret: &str,
) -> Result<invitation::Model, Error> {
    let row = invitation::Entity::find()
        .filter(invitation::Column::SecretHash.eq(fingerprint(secret)))
        .one(connection)
        .await?;
    row.filter(|row| row.used_at.is_none() && row.withdrawn_at.is_none() && row.expires_at > ctx.now())
        .ok_or_else(|| Error::problem(Code::LinkSpent, "ask whoever sent you the link for a new one"))
}

/// Stores a new link.
pub(super) async fn insert(
    ctx: &Ctx,
    tx: &Tx,
    purpose: &InvitationPurpose,
    label: &str,
    by: Option<MemberId>,
    secret: &str,
) -> Result<invitation::Model, Error> {
    let (kind, scope_id) = columns(purpose);
    let roles: &[Role] = if let InvitationPurpose::Member { roles, .. } = purpose { roles } else { &[] };
    let row = invitation::Model {
        id: ctx.id::<InvitationId>().0,
        secret_hash: fingerprint(secret),
        purpose: kind.into(),
        scope_id,
        roles: JsonColumn::new(roles.to_vec())?,
        label: label.to_owned(),
        invited_by: by.map(|member| member.0),
        created_at: ctx.now(),
        expires_at: ctx.now() + LIFETIME,
        used_at: None,
        withdrawn_at: None,
    };
    Ok(row.into_active_model().insert(tx).await?)
}

/// Returns the address of a link in the dashboard.
pub(super) fn link(ctx: &Ctx, secret: &str) -> String {
    format!("{}/accept/{secret}", ctx.addresses.http)
}

fn required_operation(purpose: &InvitationPurpose) -> (Operation, Place) {
    match purpose {
        InvitationPurpose::Operator => (Operation::InviteOperator, Place::Server),
        InvitationPurpose::Organization { consortium } => {
            (Operation::InviteOrganization, Place::Consortium(*consortium))
        }
        InvitationPurpose::Annotator { consortium } => (Operation::InviteAnnotator, Place::Consortium(*consortium)),
        InvitationPurpose::Member { organization, .. } => (Operation::InviteMember, Place::Organization(*organization)),
    }
}

async fn exists(tx: &Tx, purpose: &InvitationPurpose) -> Result<(), Error> {
    let there = match purpose {
        InvitationPurpose::Operator => true,
        InvitationPurpose::Organization { consortium } | InvitationPurpose::Annotator { consortium } => {
            consortium::Entity::find_by_id(consortium.0).one(tx).await?.is_some()
        }
        InvitationPurpose::Member { organization, .. } => {
            organization::Entity::find_by_id(organization.0).one(tx).await?.is_some()
        }
    };
    if there { Ok(()) } else { Err(Error::not_found("place")) }
}

const fn columns(purpose: &InvitationPurpose) -> (LinkPurpose, Option<uuid::Uuid>) {
    match purpose {
        InvitationPurpose::Operator => (LinkPurpose::Operator, None),
        InvitationPurpose::Organization { consortium } => (LinkPurpose::Organization, Some(consortium.0)),
        InvitationPurpose::Annotator { consortium } => (LinkPurpose::Annotator, Some(consortium.0)),
        InvitationPurpose::Member { organization, .. } => (LinkPurpose::Member, Some(organization.0)),
    }
}
