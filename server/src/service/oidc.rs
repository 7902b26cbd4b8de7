//! Accounts and identities at an OpenID Connect provider.
//!
//! A linked identity signs its member in. A new identity creates an account only if its bearer holds a valid invitation
//! or the server allows sign-up (`oidc.allow_signup`). A new identity never opens an existing account, whatever e-mail
//! address the provider vouches for: the member signs in first and links the identity in the settings. So the
//! administrator of a provider cannot take over an account of another organization.
//!
//! `oidc.domains` limits the e-mail domains for which the provider is trusted. An identity is determined by issuer and
//! subject only, because an e-mail address may pass from one person to another. A second factor is still required.

#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{IdentityId, MemberId};
use undertone_api::member::check_name;
use undertone_api::session::{LinkedIdentity, Session};

use crate::auth::provider::{Identity, Provider};
use crate::auth::{Actor, Operation, Origin, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::audit_log::{self, Act, By, What};
use crate::service::entity::{identity, member};
use crate::service::notification::credential::{self, CredentialChange};
use crate::service::session::Entered;
use crate::service::{invitation, member as members, session};

/// The reason why an identity at the provider is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The provider has not verified the e-mail address.
    Unverified,
    /// The e-mail address is in none of the domains of `oidc.domains`.
    Domain,
    /// No account has the e-mail address, and the bearer has no invitation.
    Unknown,
    /// An account has the e-mail address. Its member must sign in and link the identity.
    Account,
    /// The identity is linked to another account, or the account to another identity of the provider.
    Taken,
}

impl Refusal {
    /// Returns its word for addresses and the audit log.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Domain => "domain",
            Self::Unknown => "unknown",
            Self::Account => "account",
            Self::Taken => "taken",
        }
    }
}

/// Signs in the member of a linked identity, or creates an account where an invitation or the settings allow it.
///
/// # Errors
/// When the database fails.
pub async fn enter(
    ctx: &Ctx,
    from: Origin,
    who: &Identity,
    invitation: Option<&str>,
) -> Result<Result<Entered, Refusal>, Error> {
    let entered = ctx
        .db
        .write("sign in by a provider", async |tx| {
            let member = match recognize(ctx, tx, who, invitation).await? {
                Ok(member) => member,
                Err(refusal) => {
                    let detail = json!({ "by": "provider", "reason": refusal.word() });
                    let act =
                        Act { by: By::Nobody, what: What::SignInFailed, place: Place::Server, subject: None, detail };
                    audit_log::record(ctx, tx, act).await?;
                    return Ok(Err(refusal));
                }
            };
            Ok(Ok((member.clone(), session::admit(ctx, tx, MemberId(member.id), &from).await?)))
        })
        .await?;
    let (row, admitted) = match entered {
        Ok(entered) => entered,
        Err(refusal) => return Ok(Err(refusal)),
    };
    Ok(Ok(match admitted {
        Ok(tokens) => {
            tracing::info!(member.id = %row.id, "a member signed in by the provider");
            Entered::Whole(Session { member: members::with_grants(ctx.db.read(), row).await?, tokens })
        }
        Err(half) => Entered::Half(half),
    }))
}

/// Returns the caller's identities at the provider.
///
/// # Errors
/// `forbidden` for a caller with a key.
pub async fn list(ctx: &Ctx, actor: &Actor) -> Result<Vec<LinkedIdentity>, Error> {
    policy::check(actor, Operation::ManageIdentities, Place::Server)?;
    let rows = identity::Entity::find()
        .filter(identity::Column::MemberId.eq(actor.id().0))
        .order_by_asc(identity::Column::Id)
        .all(ctx.db.read())
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| LinkedIdentity { id: row.id.into(), issuer: row.issuer, linked_at: row.linked_at })
        .collect())
}

/// Removes one of the caller's identities: it can no longer sign in.
///
/// # Errors
/// `forbidden` for a caller with a key; 404 for an identity of another member.
pub async fn unlink(ctx: &Ctx, actor: &Actor, id: IdentityId) -> Result<(), Error> {
    policy::check(actor, Operation::ManageIdentities, Place::Server)?;
    ctx.db
        .write("unlink identity", async |tx| {
            let row = identity::Entity::find_by_id(id.0).one(tx).await?;
            let row = row.filter(|row| row.member_id == actor.id().0).ok_or_else(|| Error::not_found("identity"))?;
            identity::Entity::delete_by_id(row.id).exec(tx).await?;
            audit_log::record(ctx, tx, act(actor.into(), What::IdentityUnlinked, actor.id())).await
        })
        .await
}

/// Links an identity to the account of the caller, after a sign-in by other means.
///
/// # Errors
/// `forbidden` for a caller with an API key.
pub async fn link(ctx: &Ctx, actor: &Actor, who: &Identity) -> Result<Result<(), Refusal>, Error> {
    policy::check(actor, Operation::ManageIdentities, Place::Server)?;
    // A linked identity needs no verified e-mail, unless the domains of e-mails are limited.
    if !domains(ctx, who).is_empty()
        && let Err(refusal) = believed_email(ctx, who)
    {
        return Ok(Err(refusal));
    }
    ctx.db
        .write("link identity", async |tx| {
            if let Some(known) = find_identity(tx, who).await? {
                let is_own = known.member_id == actor.id().0;
                return Ok(if is_own { Ok(()) } else { Err(Refusal::Taken) });
            }
            let other = identity::Entity::find()
                .filter(identity::Column::MemberId.eq(actor.id().0))
                .filter(identity::Column::Issuer.eq(&who.issuer));
            if other.one(tx).await?.is_some() {
                return Ok(Err(Refusal::Taken));
            }
            insert_identity(ctx, tx, actor.id(), who).await?;
            let vouches = |email| members::normal_email(email) == actor.member.email;
            if believed_email(ctx, who).is_ok_and(vouches) {
                members::mark_address_confirmed(ctx, tx, actor.id()).await?;
            }
            audit_log::record(ctx, tx, act(actor.into(), What::IdentityLinked, actor.id())).await?;
            credential::announce(ctx, tx, actor.id(), CredentialChange::ProviderLinked { issuer: &who.issuer }).await?;
            Ok(Ok(()))
        })
        .await
}

/// Returns the member of a linked identity; creates the account of a new one where that is allowed.
async fn recognize(
    ctx: &Ctx,
    tx: &Tx,
    who: &Identity,
    invitation: Option<&str>,
) -> Result<Result<member::Model, Refusal>, Error> {
    if let Some(known) = find_identity(tx, who).await? {
        let row = member::Entity::find_by_id(known.member_id).one(tx).await?;
        return row.map(Ok).ok_or_else(|| Error::internal("reading an identity", "its member is not there"));
    }
    let email = match believed_email(ctx, who) {
        Ok(email) => email,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if members::by_email(tx, email).await?.is_some() {
        return Ok(Err(Refusal::Account));
    }
    let invited = match invitation {
        Some(secret) => invitation::open(ctx, tx, secret).await.is_ok(),
        None => false,
    };
    if !invited && !provider(ctx, who).is_some_and(Provider::allows_signup) {
        return Ok(Err(Refusal::Unknown));
    }
    let row = member::Model {
        id: ctx.id::<MemberId>().0,
        name: name(who, email),
        email: members::normal_email(email),
        // An account without a password accepts none.
        password_hash: String::new(),
        operator: false,
        created_at: ctx.now(),
        retired_at: None,
        address_confirmed_at: Some(ctx.now()),
    };
    let row = row.into_active_model().insert(tx).await?;
    let member = MemberId(row.id);
    insert_identity(ctx, tx, member, who).await?;
    audit_log::record(ctx, tx, act(By::Member(member), What::IdentityLinked, member)).await?;
    Ok(Ok(row))
}

/// Returns the provider of an identity.
fn provider<'a>(ctx: &'a Ctx, who: &Identity) -> Option<&'a Provider> {
    ctx.providers.iter().find(|provider| provider.issuer() == who.issuer)
}

/// Returns the domains for which the provider of an identity is trusted; empty for all.
fn domains<'a>(ctx: &'a Ctx, who: &Identity) -> &'a str {
    provider(ctx, who).map_or(ctx.config.oidc.domains.as_str(), Provider::domains)
}

/// Returns the e-mail address for which the provider is trusted.
fn believed_email<'a>(ctx: &Ctx, who: &'a Identity) -> Result<&'a str, Refusal> {
    let email = who.email.as_deref().ok_or(Refusal::Unverified)?;
    let domains = domains(ctx, who);
    let domain = email.rsplit_once('@').map_or("", |(_, domain)| domain);
    if domains.is_empty() || domains.split_whitespace().any(|allowed| allowed.eq_ignore_ascii_case(domain)) {
        Ok(email)
    } else {
        Err(Refusal::Domain)
    }
}

async fn find_identity(tx: &Tx, who: &Identity) -> Result<Option<identity::Model>, Error> {
    let found = identity::Entity::find()
        .filter(identity::Column::Issuer.eq(&who.issuer))
        .filter(identity::Column::Subject.eq(&who.subject));
    Ok(found.one(tx).await?)
}

async fn insert_identity(ctx: &Ctx, tx: &Tx, member: MemberId, who: &Identity) -> Result<(), Error> {
    let row = identity::Model {
        id: ctx.id::<IdentityId>().0,
        member_id: member.0,
        issuer: who.issuer.clone(),
        subject: who.subject.clone(),
        linked_at: ctx.now(),
    };
    row.into_active_model().insert(tx).await?;
    Ok(())
}

/// Returns the name of a new member: the provider's, or the beginning of their address.
fn name(who: &Identity, email: &str) -> String {
    let usable = |name: &&str| {
        let mut violations = Vec::new();
        check_name("name", name, &mut violations);
        violations.is_empty()
    };
    let start = email.split('@').next().unwrap_or_default();
    let told = who.name.as_deref().filter(usable).or(Some(start).filter(usable));
    told.unwrap_or("a member").trim().to_owned()
}

fn act(by: By, what: What, member: MemberId) -> Act<'static> {
    Act { by, what, place: Place::Server, subject: Some(("member", member.to_string())), detail: json!({}) }
}
