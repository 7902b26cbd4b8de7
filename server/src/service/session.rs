//! Sessions: signing in, staying signed in, signing out.
//!
//! A session has one refresh token that works. Using it makes the next one; using an old one again means that somebody
//! has a copy, and ends the session for everybody. The bearer of the token *just* replaced gets half a minute in which a
//! request that was already under way is still answered, without new tokens ([`Renewed::Late`]).

mod enter;
#[cfg(test)]
mod tests;

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use time::Duration;
use undertone_api::id::{MemberId, SessionId};
use undertone_api::problem::Code;
use undertone_api::session::Tokens;
use uuid::Uuid;

use crate::auth::{Access, Actor, Means, Operation, Origin, Place, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::service::audit_log::{self, Act, By, What};
use crate::service::entity::{member, session};
use crate::service::{api_key, factor, member as members, sessions};

pub(super) use enter::admit;
pub use enter::{Entered, HALF, finish, sign_in};

/// How long a request with the token just replaced is still answered.
const LATE: Duration = Duration::seconds(30);

/// What using a refresh token gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Renewed {
    /// The next pair.
    Pair(SessionId, Tokens),
    /// The token was replaced a moment ago, by a request that ran beside this one.
    Late(SessionId),
}

/// A new session of a member whose identity was proven, as far as this server asks for proof: where a second factor is in
/// force, only [`finish`] or a provider's word may lead here.
pub(super) async fn begin(ctx: &Ctx, tx: &Tx, member: MemberId, from: &Origin) -> Result<Tokens, Error> {
    sessions::make_room(ctx, tx, member).await?;
    let (id, secret, now) = (ctx.id::<SessionId>(), ctx.random.secret(), ctx.now());
    let row = session::Model {
        id: id.0,
        member_id: member.0,
        current: fingerprint(&secret),
        previous: None,
        created_at: now,
        rotated_at: now,
        expires_at: now + lifetime(ctx),
        ended_at: None,
        network: from.network(),
        agent: from.agent(),
    };
    row.into_active_model().insert(tx).await?;
    tokens(ctx, member, id, &secret)
}

/// Uses a refresh token.
///
/// # Errors
/// `unauthenticated` when it does not hold. When it once held, the whole session ends.
pub async fn refresh(ctx: &Ctx, token: &str) -> Result<Renewed, Error> {
    let (id, secret) = token.split_once('.').ok_or_else(over)?;
    let id = SessionId(Uuid::parse_str(id).map_err(|_| over())?);
    let used = fingerprint(secret);
    let next = ctx.random.secret();
    let renewed = ctx
        .db
        .write("refresh session", async |tx| {
            let row = session::Entity::find_by_id(id.0).one(tx).await?.ok_or_else(over)?;
            let now = ctx.now();
            if row.ended_at.is_some() || row.expires_at <= now {
                return Err(over());
            }
            if same(&row.current, &used) {
                let member = MemberId(row.member_id);
                let row = session::Model {
                    previous: Some(used.clone()),
                    current: fingerprint(&next),
                    rotated_at: now,
                    expires_at: now + lifetime(ctx),
                    ..row
                };
                row.into_active_model().reset_all().update(tx).await?;
                return Ok(Some(Renewed::Pair(id, tokens(ctx, member, id, &next)?)));
            }
            if row.previous.as_deref().is_some_and(|previous| same(previous, &used)) && now - row.rotated_at < LATE {
                return Ok(Some(Renewed::Late(id)));
            }
            let row = session::Model { ended_at: Some(now), ..row };
            row.into_active_model().reset_all().update(tx).await?;
            Ok(None)
        })
        .await?;
    renewed.ok_or_else(|| {
        tracing::warn!(session.id = %id, "an old refresh token was used again; the session was ended");
        over()
    })
}

/// Ends the caller's session: its tokens hold no longer, from this moment on.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn sign_out(ctx: &Ctx, actor: &Actor) -> Result<(), Error> {
    policy::check(actor, Operation::EndSession, Place::Server)?;
    ctx.db
        .write("sign out", async |tx| {
            if let Some(id) = actor.session()
                && let Some(row) = session::Entity::find_by_id(id.0).one(tx).await?
            {
                let row = session::Model { ended_at: Some(ctx.now()), ..row };
                row.into_active_model().reset_all().update(tx).await?;
                let subject = Some(("session", id.to_string()));
                let (by, what, place) = (By::from(actor), What::SignedOut, Place::Server);
                audit_log::record(ctx, tx, Act { by, what, place, subject, detail: json!({}) }).await?;
            }
            Ok(())
        })
        .await
}

/// Who is calling, by an access token or by an API key.
///
/// # Errors
/// `unauthenticated` when it does not hold or its session is over.
pub async fn authenticate(ctx: &Ctx, token: &str) -> Result<Actor, Error> {
    if !api_key::is_key(token) {
        return signed_in(ctx, token).await;
    }
    let actor = api_key::authenticate(ctx, token).await?;
    proven_enough(ctx, actor.id()).await?;
    Ok(actor)
}

/// Whether a member's keys work here: where everybody is asked for a second factor, only those of a member who has one do.
///
/// # Errors
/// `second_factor_missing` when not.
pub(super) async fn proven_enough(ctx: &Ctx, member: MemberId) -> Result<(), Error> {
    if ctx.config.require_two_factor && !factor::in_force(ctx.db.read(), member).await? {
        let remedy = "this server asks everybody for a second factor: the owner of this key has yet to set theirs up";
        return Err(Error::problem(Code::SecondFactorMissing, remedy));
    }
    Ok(())
}

/// Who has signed in, by an access token: what a browser may bear in its cookies.
///
/// # Errors
/// As [`authenticate`].
pub async fn signed_in(ctx: &Ctx, access_token: &str) -> Result<Actor, Error> {
    let access = Access::open(access_token, &ctx.token_key, ctx.now())
        .map_err(|error| Error::problem(Code::Unauthenticated, error.to_string()))?;
    actor_of(ctx, access.session).await
}

/// Who is calling, by a session that was proven.
///
/// # Errors
/// `unauthenticated` when it is over.
pub async fn actor_of(ctx: &Ctx, id: SessionId) -> Result<Actor, Error> {
    let row = session::Entity::find_by_id(id.0).one(ctx.db.read()).await?.ok_or_else(over)?;
    if row.ended_at.is_some() || row.expires_at <= ctx.now() {
        return Err(over());
    }
    let member = member::Entity::find_by_id(row.member_id).one(ctx.db.read()).await?.ok_or_else(over)?;
    let member = members::with_grants(ctx.db.read(), member).await?;
    let consortia = members::consortia_of(ctx.db.read(), &member.grants).await?;
    let confined = ctx.config.require_two_factor && !factor::in_force(ctx.db.read(), member.id).await?;
    let means = if confined { Means::Confined(id) } else { Means::Session(id) };
    Ok(Actor { member, means, consortia })
}

fn tokens(ctx: &Ctx, member: MemberId, session: SessionId, secret: &str) -> Result<Tokens, Error> {
    let now = ctx.now();
    let until = now + Duration::minutes(i64::from(ctx.config.access_minutes));
    let expires_at = until.replace_nanosecond(0).unwrap_or(until);
    let access = Access { member, session, expires_at };
    Ok(Tokens {
        access_token: access.sign(&ctx.token_key, now)?,
        access_expires_at: expires_at,
        refresh_token: format!("{session}.{secret}"),
    })
}

fn lifetime(ctx: &Ctx) -> Duration {
    Duration::days(i64::from(ctx.config.session_days))
}

fn same(stored: &str, used: &str) -> bool {
    stored.as_bytes().ct_eq(used.as_bytes()).into()
}

fn over() -> Error {
    Error::problem(Code::Unauthenticated, "the session is over: sign in again")
}
