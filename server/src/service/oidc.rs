//! Who an identity at the provider is to us. Known identities sign their member in; a new one becomes a member's when the
//! provider has made sure of an e-mail that is the member's, when its bearer holds an invitation that still works, or when
//! the server is open to everybody at the provider. Nobody becomes a member by an e-mail that nobody has verified.
//!
//! A member who came by an invitation has an e-mail that they typed, and anybody may have typed it. When the provider vouches that it is
//! somebody's, what opened the account before ends: the password, the second factor, the sessions, the API keys.
//!
//! An identity is told apart by issuer and subject only: an e-mail may pass from one person to another. A second factor is
//! asked for all the same. To believe another provider: its configuration; there is one at a time.

#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{IdentityId, MemberId};
use undertone_api::member::check_name;
use undertone_api::session::{LinkedIdentity, Session};

use crate::auth::provider::Identity;
use crate::auth::{Actor, Operation, Origin, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::audit_log::{self, Act, By, What};
use crate::service::entity::{identity, member};
use crate::service::notification::credential::{self, CredentialChange};
use crate::service::notification::{self, Notice};
use crate::service::session::Entered;
use crate::service::{api_key, factor, invitation, member as members, password, session, sessions};

/// Why somebody whom the provider knows does not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The provider has not made sure of their e-mail.
    Unverified,
    /// Nobody here has that e-mail, and they bear no invitation.
    Unknown,
    /// The member with that e-mail is linked to another identity of the provider.
    Taken,
}

impl Refusal {
    /// Its word, as it stands in addresses and in the audit log.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Unknown => "unknown",
            Self::Taken => "taken",
        }
    }
}

/// Lets somebody in by who they are to the provider, or tells why not.
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

/// The caller's identities at the provider.
///
/// # Errors
/// `forbidden` for a caller who uses a key.
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

/// Takes one of the caller's identities away: it signs nobody in any more.
///
/// # Errors
/// `forbidden` for a caller who uses a key; 404 for an identity that is not theirs.
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

/// The member that an identity is; made, or linked, when it may be.
async fn recognize(
    ctx: &Ctx,
    tx: &Tx,
    who: &Identity,
    invitation: Option<&str>,
) -> Result<Result<member::Model, Refusal>, Error> {
    let known = identity::Entity::find()
        .filter(identity::Column::Issuer.eq(&who.issuer))
        .filter(identity::Column::Subject.eq(&who.subject))
        .one(tx)
        .await?;
    if let Some(known) = known {
        let row = member::Entity::find_by_id(known.member_id).one(tx).await?;
        return row.map(Ok).ok_or_else(|| Error::internal("reading an identity", "its member is not there"));
    }
    let Some(email) = &who.email else { return Ok(Err(Refusal::Unverified)) };
    let found = members::by_email(tx, email).await?;
    let was_here = found.is_some();
    let row = if let Some(row) = found {
        let other = identity::Entity::find()
            .filter(identity::Column::MemberId.eq(row.id))
            .filter(identity::Column::Issuer.eq(&who.issuer));
        if other.one(tx).await?.is_some() {
            return Ok(Err(Refusal::Taken));
        }
        row
    } else {
        let invited = match invitation {
            Some(secret) => invitation::open(ctx, tx, secret).await.is_ok(),
            None => false,
        };
        if !invited && !ctx.provider.as_ref().is_some_and(crate::auth::provider::Provider::allows_signup) {
            return Ok(Err(Refusal::Unknown));
        }
        let row = member::Model {
            id: ctx.id::<MemberId>().0,
            name: name(who, email),
            email: members::normal_email(email),
            // Who comes so has no password: none is right.
            password_hash: String::new(),
            operator: false,
            created_at: ctx.now(),
        };
        row.into_active_model().insert(tx).await?
    };
    let linked = identity::Model {
        id: ctx.id::<IdentityId>().0,
        member_id: row.id,
        issuer: who.issuer.clone(),
        subject: who.subject.clone(),
        linked_at: ctx.now(),
    };
    let (member, identity) = (MemberId(row.id), linked.id);
    linked.into_active_model().insert(tx).await?;
    let mut done = act(By::Member(member), What::IdentityLinked, member);
    let mut row = row;
    if was_here {
        let had_password = !row.password_hash.is_empty();
        password::set(tx, member, "").await?;
        row.password_hash = String::new();
        let sessions = sessions::end_all(ctx, tx, member, None).await?;
        let keys = api_key::revoke_all(ctx, tx, member).await?;
        // As a password, an authenticator may be that of whoever typed the e-mail before; its owner could not even come in.
        let had_factor = factor::in_force(tx, member).await?;
        factor::clear(tx, member).await?;
        done.detail = json!({
            "password_cleared": had_password, "sessions_ended": sessions, "keys_revoked": keys,
            "second_factor_cleared": had_factor,
        });
        let notice = Notice::IdentityLinked { identity, member: member.0, sessions, keys };
        notification::tell(ctx, tx, notice).await?;
        credential::announce(ctx, tx, member, CredentialChange::ProviderLinked).await?;
    }
    audit_log::record(ctx, tx, done).await?;
    Ok(Ok(row))
}

/// What a new member is called: as the provider says, or as their address begins.
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
