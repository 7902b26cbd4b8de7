//! The acceptance of a link, with which a person becomes a member or gains roles as one.

use sea_orm::{ActiveModelTrait as _, ConnectionTrait, IntoActiveModel as _};
use serde_json::json;
use undertone_api::id::{ConsortiumId, MemberId, OrganizationId};
use undertone_api::member::{NewMember, Role, RoleScope};
use undertone_api::organization::InvitationPurpose;
use undertone_api::problem::{Code, Violation};
use undertone_api::session::Session;

use super::open;
use crate::auth::{Origin, Place};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{invitation, member};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::{self, MemberNotice};
use crate::service::{
    attempt, consortium, factor, member as members, operator, organization, password, retirement, session, setup,
};

/// The roles of a new organization's first member.
const FIRST: [Role; 3] = [Role::OrganizationAdmin, Role::DataSteward, Role::Researcher];

/// Accepts a link and signs in. An existing member gives their e-mail and password, and gains the roles.
///
/// # Errors
/// `link_spent`; `validation_failed` with every violation; `wrong_credentials` when the e-mail is a member's and the
/// password is wrong; `already_exists` when the organization's name is taken.
pub async fn accept(ctx: &Ctx, from: impl Into<Origin>, secret: &str, new: &NewMember) -> Result<Session, Error> {
    let from = from.into();
    let row = open(ctx, ctx.db.read(), secret).await?;
    let founds = matches!(InvitationPurpose::try_from(&row)?, InvitationPurpose::Organization { .. });
    let mut violations = new.check();
    if founds && new.organization.is_none() {
        violations.push(Violation::new("organization", "give your organization's name: 1 to 100 characters"));
    }
    if !founds && new.organization.is_some() {
        violations.push(Violation::new("organization", "this link founds no organization: leave it out"));
    }
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let existing_member = members::by_email(ctx.db.read(), &new.email).await?;
    let (hash, doors) = if let Some(row) = &existing_member {
        let doors = password::prove(ctx, &from, &new.email, &new.password, Some(row)).await?;
        no_second_factor(ctx.db.read(), MemberId(row.id)).await?;
        (None, doors)
    } else {
        let place = new.organization.as_deref().unwrap_or_default();
        let violations = password::check_choice("password", &new.password, &[&new.name, &new.email, place]);
        if !violations.is_empty() {
            return Err(Error::validation(violations));
        }
        (Some(ctx.passwords.hash(&new.password, ctx.random.bytes()).await?), Vec::new())
    };
    let (row, tokens) = ctx
        .db
        .write("accept invitation", async |tx| {
            // Everything is checked again: another request may have been faster.
            let link = open(ctx, tx, secret).await?;
            let purpose = InvitationPurpose::try_from(&link)?;
            if let Some(existing_member) = &existing_member {
                password::still(tx, existing_member).await?;
                no_second_factor(tx, MemberId(existing_member.id)).await?;
            }
            attempt::forgive(tx, &doors).await?;
            let member = settle(ctx, tx, new, hash.as_deref(), purpose == InvitationPurpose::Operator).await?;
            let bring = JoiningOrganization::with_name(new.organization.as_deref());
            admit(ctx, tx, MemberId(member.id), &purpose, bring).await?;
            let spent = invitation::Model { used_at: Some(ctx.now()), ..link };
            let spent = spent.into_active_model().reset_all().update(tx).await?;
            notify_inviter(ctx, tx, &spent, &purpose, &member).await?;
            let tokens = session::begin(ctx, tx, MemberId(member.id), &from).await?;
            Ok((member, tokens))
        })
        .await?;
    setup::discard_link_file(&ctx.config.data_dir, secret);
    tracing::info!(member.id = %row.id, invitation.purpose = row_purpose(&row), "an invitation was accepted");
    Ok(Session { member: members::with_grants(ctx.db.read(), row).await?, tokens })
}

/// Rejects a member with a second factor: a password alone is not enough.
async fn no_second_factor(connection: &impl ConnectionTrait, member: MemberId) -> Result<(), Error> {
    if !factor::in_force(connection, member).await? {
        return Ok(());
    }
    Err(Error::wrong_state("you have an account with two-factor on: sign in first, then open the link again"))
}

/// Notifies the author of a link that it was accepted.
pub(super) async fn notify_inviter(
    ctx: &Ctx,
    tx: &Tx,
    link: &invitation::Model,
    purpose: &InvitationPurpose,
    who: &member::Model,
) -> Result<(), Error> {
    let Some(invited_by) = link.invited_by else { return Ok(()) };
    let (consortium, organization) = match purpose {
        InvitationPurpose::Operator => (None, None),
        InvitationPurpose::Organization { consortium } | InvitationPurpose::Annotator { consortium } => {
            (Some(consortium.0), None)
        }
        InvitationPurpose::Member { organization, .. } => (None, Some(organization.0)),
    };
    let notice = MemberNotice::InvitationAccepted {
        invitation: link.id,
        invited_by,
        consortium,
        organization,
        who: &who.name,
        label: &link.label,
    };
    notification::tell(ctx, tx, notice).await
}

const fn row_purpose(row: &member::Model) -> &'static str {
    if row.operator { "operator" } else { "member" }
}

/// Returns the member's row, existing or new.
async fn settle(
    ctx: &Ctx,
    tx: &Tx,
    new: &NewMember,
    hash: Option<&str>,
    operator: bool,
) -> Result<member::Model, Error> {
    match (members::by_email(tx, &new.email).await?, hash) {
        (Some(row), None) => {
            let operator = operator || row.operator;
            Ok(member::Model { operator, ..row }.into_active_model().reset_all().update(tx).await?)
        }
        (None, Some(hash)) => {
            let row = member::Model {
                id: ctx.id::<MemberId>().0,
                name: new.name.trim().to_owned(),
                email: members::normal_email(&new.email),
                password_hash: hash.to_owned(),
                operator,
                created_at: ctx.now(),
                retired_at: None,
                address_confirmed_at: None,
            };
            Ok(row.into_active_model().insert(tx).await?)
        }
        _ => Err(Error::problem(Code::AlreadyExists, "this e-mail was just taken: try again")),
    }
}

/// The organization that joins with the caller.
#[derive(Debug, Clone, Copy)]
pub(super) enum JoiningOrganization<'a> {
    /// None.
    Nothing,
    /// A new one with this name.
    New(&'a str),
    /// An existing one.
    Existing(OrganizationId),
}

impl<'a> JoiningOrganization<'a> {
    fn with_name(name: Option<&'a str>) -> Self {
        name.map_or(Self::Nothing, Self::New)
    }
}

/// Grants the roles of the link, and logs it in the place of the roles.
pub(super) async fn admit(
    ctx: &Ctx,
    tx: &Tx,
    member: MemberId,
    purpose: &InvitationPurpose,
    bring: JoiningOrganization<'_>,
) -> Result<(), Error> {
    let (what, place, subject) = match purpose {
        InvitationPurpose::Operator => {
            operator::announce_arrival(ctx, tx, member).await?;
            (AuditAction::MemberJoined, Place::Server, None)
        }
        InvitationPurpose::Organization { consortium } => {
            let organization = match bring {
                JoiningOrganization::Existing(id) => {
                    consortium::join(ctx, tx, *consortium, id).await?;
                    id
                }
                JoiningOrganization::New(name) => create_organization(ctx, tx, member, *consortium, name).await?,
                JoiningOrganization::Nothing => {
                    return Err(Error::internal("accepting a link", "it brings no organization"));
                }
            };
            let subject = Some(("organization", organization.to_string()));
            (AuditAction::OrganizationJoined, Place::Consortium(*consortium), subject)
        }
        InvitationPurpose::Annotator { consortium } => {
            members::grant(tx, member, RoleScope::Consortium(*consortium), Role::Annotator).await?;
            (AuditAction::MemberJoined, Place::Consortium(*consortium), None)
        }
        InvitationPurpose::Member { organization, roles } => {
            retirement::check_not_retired(tx, *organization, member).await?;
            for role in roles {
                members::grant(tx, member, RoleScope::Organization(*organization), *role).await?;
            }
            (AuditAction::MemberJoined, Place::Organization(*organization), None)
        }
    };
    let subject = subject.or_else(|| Some(("member", member.to_string())));
    audit_log::record(
        ctx,
        tx,
        NewAuditEntry { by: AuditAuthor::Member(member), what, place, subject, detail: json!({}) },
    )
    .await
}

/// Makes an organization in a consortium, with `member` as its first.
pub(in crate::service) async fn create_organization(
    ctx: &Ctx,
    tx: &Tx,
    member: MemberId,
    consortium: ConsortiumId,
    name: &str,
) -> Result<OrganizationId, Error> {
    let organization = organization::insert(ctx, tx, name).await?;
    for role in FIRST {
        members::grant(tx, member, RoleScope::Organization(organization), role).await?;
    }
    consortium::join(ctx, tx, consortium, organization).await?;
    Ok(organization)
}
