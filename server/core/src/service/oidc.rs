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
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{IdentityId, MemberId};
use undertone_api::member::check_name;
use undertone_api::session::{LinkedIdentity, Session};

use crate::auth::provider::{Identity, Provider};
use crate::auth::{Actor, Door, Operation, Origin, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::fairness::{WorkOwner, recognize_caller};
use crate::model::{identity, member};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::credential::{self, CredentialChange};
use crate::service::session::SignInResult;
use crate::service::{attempt, invitation, member as members, session};

/// The reason why an identity at the provider is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInRefusal {
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

impl SignInRefusal {
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

/// A person for whom the provider vouches and who may come in.
enum KnownPerson {
    /// The member to whose account the identity is linked.
    Member(Box<member::Model>),
    /// A person without an account, whose e-mail address the provider has verified.
    Newcomer {
        /// The address.
        email: String,
    },
}

/// Signs in the member of a linked identity, or creates the account of an invited person. A refused identity is a stranger's, so it
/// takes no transaction, and is counted and logged like a wrong password.
///
/// # Errors
/// `rate_limited` after too many refused ones from an address (see [`Door`]).
pub async fn enter(
    ctx: &Ctx,
    from: Origin,
    who: &Identity,
    invitation: Option<&str>,
) -> Result<Result<SignInResult, SignInRefusal>, Error> {
    let doors = Door::of_address(from.address);
    attempt::enter(ctx, &doors).await?;
    match recognize(ctx, ctx.db.read(), who, invitation).await? {
        Ok(KnownPerson::Member(row)) => recognize_caller(WorkOwner::Member(MemberId(row.id))),
        Ok(KnownPerson::Newcomer { .. }) => {}
        Err(refusal) => return Ok(Err(note_refusal(ctx, refusal))),
    }
    let entered = ctx
        .db
        .write("sign in by a provider", async |tx| {
            // Asked again: another request may have been first.
            let row = match recognize(ctx, tx, who, invitation).await? {
                Ok(KnownPerson::Member(row)) => *row,
                Ok(KnownPerson::Newcomer { email }) => insert_member(ctx, tx, who, &email).await?,
                Err(refusal) => return Ok(Err(refusal)),
            };
            attempt::forgive(tx, &doors).await?;
            let admitted = session::admit(ctx, tx, MemberId(row.id), &from).await?;
            Ok(Ok((row, admitted)))
        })
        .await?;
    let (row, admitted) = match entered {
        Ok(entered) => entered,
        Err(refusal) => return Ok(Err(note_refusal(ctx, refusal))),
    };
    Ok(Ok(match admitted {
        Ok(tokens) => {
            tracing::info!(member.id = %row.id, "a member signed in by the provider");
            SignInResult::Whole(Session { member: members::with_grants(ctx.db.read(), row).await?, tokens })
        }
        Err(half) => SignInResult::Half(half),
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
/// `forbidden` for a caller with a key; `proof_stale`; 404 for an identity of another member.
pub async fn unlink(ctx: &Ctx, actor: &Actor, id: IdentityId) -> Result<(), Error> {
    policy::check(actor, Operation::ManageIdentities, Place::Server)?;
    policy::check_fresh(actor)?;
    ctx.db
        .write("unlink identity", async |tx| {
            let row = identity::Entity::find_by_id(id.0).one(tx).await?;
            let row = row.filter(|row| row.member_id == actor.id().0).ok_or_else(|| Error::not_found("identity"))?;
            identity::Entity::delete_by_id(row.id).exec(tx).await?;
            audit_log::record(ctx, tx, act(actor.into(), AuditAction::IdentityUnlinked, actor.id())).await?;
            let change = CredentialChange::ProviderUnlinked { issuer: &row.issuer };
            credential::announce(ctx, tx, actor.id(), change).await
        })
        .await?;
    ctx.changes().notify();
    Ok(())
}

/// Checks that the caller may link an identity, before they are sent to the provider.
///
/// # Errors
/// `forbidden` for a caller who uses an API key; `proof_stale`.
pub fn check_may_link(actor: &Actor) -> Result<(), Error> {
    policy::check(actor, Operation::ManageIdentities, Place::Server)?;
    policy::check_fresh(actor)
}

/// Links an identity to the account of the caller, after a sign-in by other means.
///
/// # Errors
/// As [`check_may_link`].
pub async fn link(ctx: &Ctx, actor: &Actor, who: &Identity) -> Result<Result<(), SignInRefusal>, Error> {
    check_may_link(actor)?;
    // A linked identity needs no verified e-mail, unless the domains of e-mails are limited.
    if !domains(ctx, who).is_empty()
        && let Err(refusal) = trusted_email(ctx, who)
    {
        return Ok(Err(refusal));
    }
    let linked = ctx
        .db
        .write("link identity", async |tx| {
            if let Some(known) = find_identity(tx, who).await? {
                let is_own = known.member_id == actor.id().0;
                return Ok(if is_own { Ok(()) } else { Err(SignInRefusal::Taken) });
            }
            let other = identity::Entity::find()
                .filter(identity::Column::MemberId.eq(actor.id().0))
                .filter(identity::Column::Issuer.eq(&who.issuer));
            if other.one(tx).await?.is_some() {
                return Ok(Err(SignInRefusal::Taken));
            }
            insert_identity(ctx, tx, actor.id(), who).await?;
            let vouches = |email| members::normal_email(email) == actor.member.email;
            if trusted_email(ctx, who).is_ok_and(vouches) {
                members::mark_address_confirmed(ctx, tx, actor.id()).await?;
            }
            audit_log::record(ctx, tx, act(actor.into(), AuditAction::IdentityLinked, actor.id())).await?;
            credential::announce(ctx, tx, actor.id(), CredentialChange::ProviderLinked { issuer: &who.issuer }).await?;
            Ok(Ok(()))
        })
        .await?;
    ctx.changes().notify();
    Ok(linked)
}

/// Notes a refused identity: in the program's log with its reason, in the audit log as failures of strangers are noted.
fn note_refusal(ctx: &Ctx, refusal: SignInRefusal) -> SignInRefusal {
    tracing::info!(refusal = refusal.word(), "an identity at a provider was refused");
    attempt::note_failure(ctx, None, AuditAction::SignInFailed);
    refusal
}

/// Recognizes an identity: the member to whom it is linked, or a person who may create an account.
async fn recognize(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    who: &Identity,
    invitation: Option<&str>,
) -> Result<Result<KnownPerson, SignInRefusal>, Error> {
    if let Some(known) = find_identity(connection, who).await? {
        let row = member::Entity::find_by_id(known.member_id).one(connection).await?;
        let row = row.ok_or_else(|| Error::internal("reading an identity", "its member is not there"))?;
        return Ok(Ok(KnownPerson::Member(Box::new(row))));
    }
    let email = match trusted_email(ctx, who) {
        Ok(email) => email,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if members::by_email(connection, email).await?.is_some() {
        return Ok(Err(SignInRefusal::Account));
    }
    let is_invited = match invitation {
        Some(secret) => invitation::open(ctx, connection, secret).await.is_ok(),
        None => false,
    };
    if !is_invited && !provider(ctx, who).is_some_and(Provider::allows_signup) {
        return Ok(Err(SignInRefusal::Unknown));
    }
    Ok(Ok(KnownPerson::Newcomer { email: email.to_owned() }))
}

/// Creates the account of a newcomer, with the identity linked.
async fn insert_member(ctx: &Ctx, tx: &Tx, who: &Identity, email: &str) -> Result<member::Model, Error> {
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
    audit_log::record(ctx, tx, act(AuditAuthor::Member(member), AuditAction::IdentityLinked, member)).await?;
    Ok(row)
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
fn trusted_email<'a>(ctx: &Ctx, who: &'a Identity) -> Result<&'a str, SignInRefusal> {
    let email = who.email.as_deref().ok_or(SignInRefusal::Unverified)?;
    let domains = domains(ctx, who);
    let domain = email.rsplit_once('@').map_or("", |(_, domain)| domain);
    if domains.is_empty() || domains.split_whitespace().any(|allowed| allowed.eq_ignore_ascii_case(domain)) {
        Ok(email)
    } else {
        Err(SignInRefusal::Domain)
    }
}

async fn find_identity(connection: &impl ConnectionTrait, who: &Identity) -> Result<Option<identity::Model>, Error> {
    let query = identity::Entity::find()
        .filter(identity::Column::Issuer.eq(&who.issuer))
        .filter(identity::Column::Subject.eq(&who.subject));
    Ok(query.one(connection).await?)
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
    let name = who.name.as_deref().filter(usable).or(Some(start).filter(usable));
    name.unwrap_or("a member").trim().to_owned()
}

fn act(by: AuditAuthor, what: AuditAction, member: MemberId) -> NewAuditEntry<'static> {
    NewAuditEntry { by, what, place: Place::Server, subject: Some(("member", member.to_string())), detail: json!({}) }
}
