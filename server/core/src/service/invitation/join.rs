//! The acceptance of a link with an existing account: one person can belong to several organizations, and an
//! organization to several consortia, without a second account.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use undertone_api::member::{JoinRequest, Member, Role, check_name};
use undertone_api::organization::InvitationPurpose;
use undertone_api::problem::{Code, Violation};

use super::accept::{JoiningOrganization, admit, notify_inviter};
use super::open;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{invitation, member, membership};
use crate::service::{member as members, setup};

/// Accepts a link as the caller; returns the member with their new roles. A link that brings an organization into a
/// consortium takes one of which the caller is an admin, or the name of a new one.
///
/// # Errors
/// `link_spent`; `validation_failed` with every violation; `already_exists` when the organization is in the consortium,
/// or the name is taken.
pub async fn join(ctx: &Ctx, actor: &Actor, secret: &str, with: &JoinRequest) -> Result<Member, Error> {
    policy::check(actor, Operation::JoinByLink, Place::Server)?;
    let row = open(ctx, ctx.db.read(), secret).await?;
    let violations =
        violations(actor, with, matches!(InvitationPurpose::try_from(&row)?, InvitationPurpose::Organization { .. }));
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let bring = match (with.organization, &with.organization_name) {
        (Some(id), _) => JoiningOrganization::Existing(id),
        (None, Some(name)) => JoiningOrganization::New(name),
        (None, None) => JoiningOrganization::Nothing,
    };
    let row = ctx
        .db
        .write("join by invitation", async |tx| {
            // Checked again: another request may have been faster.
            let link = open(ctx, tx, secret).await?;
            let purpose = InvitationPurpose::try_from(&link)?;
            let row = member::Entity::find_by_id(actor.id().0).one(tx).await?;
            let mut row = row.ok_or_else(|| Error::not_found("member"))?;
            if purpose == InvitationPurpose::Operator && !row.operator {
                row = member::Model { operator: true, ..row }.into_active_model().reset_all().update(tx).await?;
            }
            if let (InvitationPurpose::Organization { consortium }, JoiningOrganization::Existing(id)) =
                (&purpose, bring)
                && membership::Entity::find_by_id((consortium.0, id.0)).one(tx).await?.is_some()
            {
                return Err(Error::problem(Code::AlreadyExists, "your organization is in this consortium already"));
            }
            admit(ctx, tx, actor.id(), &purpose, bring).await?;
            let spent = invitation::Model { used_at: Some(ctx.now()), ..link };
            let spent = spent.into_active_model().reset_all().update(tx).await?;
            notify_inviter(ctx, tx, &spent, &purpose, &row).await?;
            Ok(row)
        })
        .await?;
    setup::discard_link_file(&ctx.config.data_dir, secret);
    tracing::info!(member.id = %actor.id(), "a member accepted another invitation");
    members::with_grants(ctx.db.read(), row).await
}

fn violations(actor: &Actor, with: &JoinRequest, brings: bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    if let Some(name) = &with.organization_name {
        check_name("organization_name", name, &mut violations);
    }
    match (brings, with.organization, &with.organization_name) {
        (false, None, None) | (true, None, Some(_)) => {}
        (true, Some(id), None) => {
            if actor.roles_in(id).all(|role| role != Role::OrganizationAdmin) {
                let remedy = "name an organization of which you are an admin";
                violations.push(Violation::new("organization", remedy));
            }
        }
        (false, ..) => {
            violations.push(Violation::new("organization", "this link brings no organization: leave it out"));
        }
        (true, ..) => {
            let remedy = "name an organization of which you are an admin, or a new one: one of the two";
            violations.push(Violation::new("organization", remedy));
        }
    }
    violations
}
