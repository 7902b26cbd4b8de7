//! Accepting a link: the one way to become a member, or to gain roles as one.

use std::net::IpAddr;

use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
use undertone_api::id::{ConsortiumId, MemberId, OrganizationId};
use undertone_api::member::{NewMember, Role, Scope};
use undertone_api::organization::Purpose;
use undertone_api::problem::{Code, Violation};
use undertone_api::session::Session;

use super::{open, purpose};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::entity::{invitation, member};
use crate::service::{consortium, member as members, organization, session};

/// The roles of a new organization's first member.
const FIRST: [Role; 3] = [Role::OrganizationAdmin, Role::DataSteward, Role::Researcher];

/// Accepts a link and signs in. Somebody who is a member already gives their e-mail and password, and gains the roles.
///
/// # Errors
/// `link_spent`; `validation_failed` with every violation; `wrong_credentials` when the e-mail is a member's and the
/// password is not; `already_exists` when the organization's name is taken.
pub async fn accept(ctx: &Ctx, from: IpAddr, secret: &str, new: &NewMember) -> Result<Session, Error> {
    let row = open(ctx, ctx.db.read(), secret).await?;
    let founds = matches!(purpose(&row)?, Purpose::Organization { .. });
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
    let known = members::by_email(ctx.db.read(), &new.email).await?;
    let hash = if known.is_some() {
        session::prove(ctx, from, &new.email, &new.password, known.as_ref()).await?;
        None
    } else {
        Some(ctx.passwords.hash(&new.password, ctx.random.bytes()).await?)
    };
    let (row, tokens) = ctx
        .db
        .write("accept invitation", async |tx| {
            // Both are asked again: another request may have been first.
            let link = open(ctx, tx, secret).await?;
            let purpose = purpose(&link)?;
            let member = settle(ctx, tx, new, hash.as_deref(), purpose == Purpose::Operator).await?;
            admit(ctx, tx, MemberId(member.id), &purpose, new.organization.as_deref()).await?;
            let spent = invitation::Model { used_at: Some(ctx.now()), ..link };
            spent.into_active_model().reset_all().update(tx).await?;
            let tokens = session::begin(ctx, tx, MemberId(member.id)).await?;
            Ok((member, tokens))
        })
        .await?;
    tracing::info!(member.id = %row.id, invitation.purpose = row_purpose(&row), "an invitation was accepted");
    Ok(Session { member: members::with_grants(ctx.db.read(), row).await?, tokens })
}

const fn row_purpose(row: &member::Model) -> &'static str {
    if row.operator { "operator" } else { "member" }
}

/// The member's row: made, or the one that is there.
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
            };
            Ok(row.into_active_model().insert(tx).await?)
        }
        _ => Err(Error::problem(Code::AlreadyExists, "this e-mail was just taken: try again")),
    }
}

/// Gives what the link promises.
async fn admit(ctx: &Ctx, tx: &Tx, member: MemberId, purpose: &Purpose, name: Option<&str>) -> Result<(), Error> {
    match purpose {
        Purpose::Operator => Ok(()),
        Purpose::Organization { consortium } => {
            found(ctx, tx, member, *consortium, name.unwrap_or_default()).await.map(|_| ())
        }
        Purpose::Annotator { consortium } => {
            members::grant(tx, member, Scope::Consortium(*consortium), Role::Annotator).await
        }
        Purpose::Member { organization, roles } => {
            for role in roles {
                members::grant(tx, member, Scope::Organization(*organization), *role).await?;
            }
            Ok(())
        }
    }
}

/// Makes an organization in a consortium, with `member` as its first.
pub(in crate::service) async fn found(
    ctx: &Ctx,
    tx: &Tx,
    member: MemberId,
    consortium: ConsortiumId,
    name: &str,
) -> Result<OrganizationId, Error> {
    let organization = organization::insert(ctx, tx, name).await?;
    for role in FIRST {
        members::grant(tx, member, Scope::Organization(organization), role).await?;
    }
    consortium::join(ctx, tx, consortium, organization).await?;
    Ok(organization)
}
