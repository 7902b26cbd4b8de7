//! Sessions: sign-in, renewal, sign-out.
//!
//! A session has one valid refresh token. Its use makes the next one. The reuse of an old one means that it was copied,
//! and ends the session for all holders. For half a minute, a request with the *just* replaced token that was already
//! in flight is still answered, without new tokens ([`RenewedSession::Late`]). After that the answer with the new pair counts as
//! lost while no token of the pair is used: the token before it gives another pair. A thief who uses that token is
//! detected when the member uses theirs.
//!
//! A session ends `session_most_days` after its sign-in, however often it is renewed: a copied refresh token does not
//! last.

mod enter;
mod passkey;
mod place;
mod proof;
#[cfg(test)]
mod tests;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use serde_json::json;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use time::{Duration, OffsetDateTime};
use undertone_api::id::{MemberId, SessionId};
use undertone_api::problem::Code;
use undertone_api::session::TokenPair;
use uuid::Uuid;

use crate::auth::{Access, Actor, FRESH, Means, Operation, Origin, Place, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::fairness::{WorkOwner, recognize_caller};
use crate::keys::ring::RingKey;
use crate::model::{member, session};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::{api_key, factor, member as members, sessions};

pub(super) use enter::admit;
pub use enter::{SignInResult, finish, sign_in};
pub use passkey::{passkey_sign_in, second_factors, sign_in_challenge};
pub use proof::prove_identity;

/// The time in which a request with the just replaced token is still answered.
const LATE: Duration = Duration::seconds(30);
/// Hex digits of the random part of a refresh token's secret.
const NONCE_DIGITS: usize = 64;
/// Bytes of the tag of a refresh token's secret.
const TAG_BYTES: usize = 16;

/// The result of using a refresh token.
#[derive(Debug, Clone, PartialEq)]
pub enum RenewedSession {
    /// The next pair.
    Pair(SessionId, TokenPair),
    /// The token was replaced a moment ago, by a concurrent request.
    Late(SessionId),
}

/// Begins a session of a member whose identity was proven as far as this server requires: with a second factor in
/// force, only [`finish`] or a provider's assertion may lead here.
pub(super) async fn begin(ctx: &Ctx, tx: &Tx, member: MemberId, from: &Origin) -> Result<TokenPair, Error> {
    refuse_retired(tx, member).await?;
    sessions::make_room(ctx, tx, member).await?;
    let id = ctx.id::<SessionId>();
    let secret = new_secret(ctx, id);
    let now = ctx.now();
    place::announce_new(ctx, tx, member, id, from).await?;
    let row = session::Model {
        id: id.0,
        member_id: member.0,
        current: fingerprint(&secret),
        previous: None,
        created_at: now,
        rotated_at: now,
        expires_at: end_of(ctx, now),
        ended_at: None,
        network: from.network(),
        agent: from.agent(),
        proven_at: Some(now),
    };
    row.into_active_model().insert(tx).await?;
    tokens(ctx, member, id, &secret)
}

/// Rejects a member whose account is retired.
async fn refuse_retired(tx: &Tx, member: MemberId) -> Result<(), Error> {
    let row = member::Entity::find_by_id(member.0).one(tx).await?;
    if row.is_some_and(|row| row.retired_at.is_none()) {
        return Ok(());
    }
    Err(Error::problem(Code::Unauthenticated, "this account is retired: ask the server's operator to restore it"))
}

/// The state of a refresh token in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenStanding {
    /// It is the valid one.
    Current,
    /// It was replaced a moment ago.
    JustReplaced,
    /// It was replaced, and nothing of the pair that it gave was used: the answer is taken for lost.
    AnswerLost,
    /// It was valid once.
    Replaced,
    /// This server never issued it for this session.
    Foreign,
}

/// Uses a refresh token. A token that was never issued changes nothing and takes no transaction.
///
/// # Errors
/// `unauthenticated` when it does not hold. When it once held, and the answer that replaced it was not lost, the whole session ends.
pub async fn refresh(ctx: &Ctx, token: &str) -> Result<RenewedSession, Error> {
    let (id, secret) = token.split_once('.').ok_or_else(session_error)?;
    let id = SessionId(Uuid::parse_str(id).map_err(|_| session_error())?);
    let row = session::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.filter(|row| is_open(ctx, row)).ok_or_else(session_error)?;
    match standing_of(ctx, &row, secret) {
        TokenStanding::Foreign => return Err(session_error()),
        TokenStanding::JustReplaced => return Ok(RenewedSession::Late(id)),
        TokenStanding::Current | TokenStanding::AnswerLost | TokenStanding::Replaced => {}
    }
    // The token was issued to this member.
    recognize_caller(WorkOwner::Member(MemberId(row.member_id)));
    let next = new_secret(ctx, id);
    let renewed = ctx
        .db
        .write("refresh session", async |tx| {
            // Checked again: another request may have been faster.
            let row = session::Entity::find_by_id(id.0).one(tx).await?;
            let row = row.filter(|row| is_open(ctx, row)).ok_or_else(session_error)?;
            let now = ctx.now();
            match standing_of(ctx, &row, secret) {
                TokenStanding::Current | TokenStanding::AnswerLost => {
                    let member = MemberId(row.member_id);
                    let row = session::Model {
                        previous: Some(fingerprint(secret)),
                        current: fingerprint(&next),
                        rotated_at: now,
                        expires_at: end_of(ctx, row.created_at),
                        ..row
                    };
                    row.into_active_model().reset_all().update(tx).await?;
                    Ok(Some(RenewedSession::Pair(id, tokens(ctx, member, id, &next)?)))
                }
                TokenStanding::JustReplaced => Ok(Some(RenewedSession::Late(id))),
                TokenStanding::Replaced => {
                    let row = session::Model { ended_at: Some(now), ..row };
                    row.into_active_model().reset_all().update(tx).await?;
                    Ok(None)
                }
                TokenStanding::Foreign => Err(session_error()),
            }
        })
        .await?;
    renewed.ok_or_else(|| {
        ctx.changes().notify_standings();
        tracing::warn!(session.id = %id, "an old refresh token was used again; the session was ended");
        session_error()
    })
}

fn is_open(ctx: &Ctx, row: &session::Model) -> bool {
    row.ended_at.is_none() && row.expires_at > ctx.now()
}

fn standing_of(ctx: &Ctx, row: &session::Model, secret: &str) -> TokenStanding {
    let used = fingerprint(secret);
    let is_previous = row.previous.as_deref().is_some_and(|previous| same(previous, &used));
    if same(&row.current, &used) {
        TokenStanding::Current
    } else if is_previous && ctx.now() - row.rotated_at < LATE {
        TokenStanding::JustReplaced
    } else if is_previous {
        TokenStanding::AnswerLost
    } else if is_issued(ctx, SessionId(row.id), secret) {
        TokenStanding::Replaced
    } else {
        TokenStanding::Foreign
    }
}

/// Makes the secret of a refresh token: 32 random bytes, and a tag by which this server recognizes all issued secrets
/// of a session without storing them.
fn new_secret(ctx: &Ctx, session: SessionId) -> String {
    let nonce = ctx.random.secret();
    let tag = tag_of(ctx.keys.token().current(ctx.now()), session, &nonce);
    nonce + &tag
}

/// Returns whether this server issued a secret for this session.
fn is_issued(ctx: &Ctx, session: SessionId, secret: &str) -> bool {
    let Some((nonce, tag)) = secret.split_at_checked(NONCE_DIGITS) else { return false };
    let longest = Duration::days(i64::from(ctx.config.session_most_days));
    ctx.keys.token().usable(ctx.now(), longest).any(|key| same(&tag_of(key, session, nonce), tag))
}

/// Returns the first 16 bytes of HMAC-SHA-256 over session and nonce, in hex.
fn tag_of(key: &RingKey, session: SessionId, nonce: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.secret()).expect("HMAC takes a key of any length");
    mac.update(b"undertone/refresh/1");
    mac.update(session.0.as_bytes());
    mac.update(nonce.as_bytes());
    hex::encode(&mac.finalize().into_bytes()[..TAG_BYTES])
}

/// Ends the caller's session: its tokens are invalid with immediate effect.
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
                let (by, what, place) = (AuditAuthor::from(actor), AuditAction::SignedOut, Place::Server);
                audit_log::record(ctx, tx, NewAuditEntry { by, what, place, subject, detail: json!({}) }).await?;
            }
            Ok(())
        })
        .await?;
    ctx.changes().notify_standings();
    Ok(())
}

/// Returns the caller of an access token or an API key.
///
/// # Errors
/// `unauthenticated` when it is not valid or its session is over.
pub async fn authenticate(ctx: &Ctx, token: &str) -> Result<Actor, Error> {
    if !api_key::is_key(token) {
        return signed_in(ctx, token).await;
    }
    let actor = api_key::authenticate(ctx, token).await?;
    proven_enough(ctx, actor.id()).await?;
    Ok(actor)
}

/// Checks that a member's keys are accepted here: where a second factor is required, their owner must have one.
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

/// Returns the signed-in member of an access token, which a browser may send as a cookie.
///
/// # Errors
/// As [`authenticate`].
pub async fn signed_in(ctx: &Ctx, access_token: &str) -> Result<Actor, Error> {
    let access = Access::open(access_token, &ctx.keys.token(), ctx.now())
        .map_err(|error| Error::problem(Code::Unauthenticated, error.to_string()))?;
    let row = open_session(ctx, access.session).await?;
    if confirms_renewal(ctx, &row, &access) {
        confirm_renewal(ctx, &row).await;
    }
    actor_in(ctx, &row).await
}

/// Returns whether an access token shows that the newest pair has reached its bearer, when that is not known yet. Within half a minute of
/// a renewal, requests with the token before may still be under way, so nothing is concluded.
fn confirms_renewal(ctx: &Ctx, row: &session::Model, access: &Access) -> bool {
    let is_settled = ctx.now() - row.rotated_at >= LATE;
    row.previous.is_some() && is_settled && access.expires_at >= access_end(ctx, row.rotated_at)
}

/// Forgets the refresh token before the current one: whoever uses it from now on has a copy. A failure is logged only, because a disk
/// that is full is no reason to refuse a request that reads.
async fn confirm_renewal(ctx: &Ctx, row: &session::Model) {
    let confirmed = ctx
        .db
        .write_concurrent("confirm a renewal", async |tx| {
            session::Entity::update_many()
                .col_expr(session::Column::Previous, Expr::value(Option::<String>::None))
                .filter(session::Column::Id.eq(row.id))
                .filter(session::Column::Current.eq(&row.current))
                .exec(tx)
                .await?;
            Ok(())
        })
        .await;
    if let Err(error) = confirmed {
        tracing::warn!(session.id = %row.id, error = &error as &dyn std::error::Error, "cannot confirm a session's renewal");
    }
}

/// Returns the actor of a session.
///
/// # Errors
/// `unauthenticated` when it is over.
pub async fn actor_of(ctx: &Ctx, id: SessionId) -> Result<Actor, Error> {
    let row = open_session(ctx, id).await?;
    actor_in(ctx, &row).await
}

/// Returns a session that is not over.
async fn open_session(ctx: &Ctx, id: SessionId) -> Result<session::Model, Error> {
    let row = session::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    row.filter(|row| is_open(ctx, row)).ok_or_else(session_error)
}

/// Returns the member whose session this is, with what the policy asks.
async fn actor_in(ctx: &Ctx, row: &session::Model) -> Result<Actor, Error> {
    let id = SessionId(row.id);
    let member = member::Entity::find_by_id(row.member_id).one(ctx.db.read()).await?;
    let member = member.filter(|member| member.retired_at.is_none()).ok_or_else(session_error)?;
    let member = members::with_grants(ctx.db.read(), member).await?;
    let standing = members::standing_of(ctx.db.read(), &member.grants).await?;
    let is_fresh = row.proven_at.is_some_and(|at| ctx.now() - at <= FRESH);
    let confined = ctx.config.require_two_factor && !factor::in_force(ctx.db.read(), member.id).await?;
    let means = if confined { Means::Confined(id) } else { Means::Session(id) };
    Ok(Actor::new(member, means, standing, is_fresh))
}

fn tokens(ctx: &Ctx, member: MemberId, session: SessionId, secret: &str) -> Result<TokenPair, Error> {
    let now = ctx.now();
    let expires_at = access_end(ctx, now);
    let access = Access { member, session, expires_at };
    Ok(TokenPair {
        access_token: access.sign(&ctx.keys.token(), now)?,
        access_expires_at: expires_at,
        refresh_token: format!("{session}.{secret}"),
    })
}

/// Returns the end of an access token that is given out at `now`, in whole seconds.
fn access_end(ctx: &Ctx, now: OffsetDateTime) -> OffsetDateTime {
    let until = now + Duration::minutes(i64::from(ctx.config.access_minutes));
    until.replace_nanosecond(0).unwrap_or(until)
}

/// Returns the end of a session that is used now and began at `began`: after the permitted days without use, and at
/// most the permitted days in all.
fn end_of(ctx: &Ctx, began: OffsetDateTime) -> OffsetDateTime {
    let unused = ctx.now() + Duration::days(i64::from(ctx.config.session_days));
    unused.min(began + Duration::days(i64::from(ctx.config.session_most_days)))
}

fn same(stored: &str, used: &str) -> bool {
    stored.as_bytes().ct_eq(used.as_bytes()).into()
}

fn session_error() -> Error {
    Error::problem(Code::Unauthenticated, "the session is over: sign in again")
}
