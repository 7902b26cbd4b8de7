//! Sign-in with a passkey: alone, or as the second step after the password.

use sea_orm::EntityTrait as _;
use undertone_api::account::SecondFactors;
use undertone_api::id::MemberId;
use undertone_api::passkey::{PasskeyChallenge, PasskeySignIn};
use undertone_api::session::{Session, TokenPair};

use super::begin;
use super::enter::{half_session_error, open, signed_in};
use crate::auth::passkey::PasskeyPurpose;
use crate::auth::{Door, Origin};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{half_session, member};
use crate::service::factor::{self, FactorMethod};
use crate::service::passkey::{self, VerifiedPasskey};
use crate::service::{attempt, member as members};

/// Returns a challenge for a sign-in: for the member of a half session, or for any passkey that the authenticator
/// chooses.
///
/// # Errors
/// `unauthenticated` when the half session is over; `wrong_state` where its member has no passkey, or browsers have
/// none for this server.
pub async fn sign_in_challenge(ctx: &Ctx, half_token: &str) -> Result<PasskeyChallenge, Error> {
    if half_token.is_empty() {
        return passkey::issue(ctx, PasskeyPurpose::SignIn, None, None).await;
    }
    let member = MemberId(open(ctx, ctx.db.read(), half_token).await?.member_id);
    let challenge = passkey::issue(ctx, PasskeyPurpose::SecondStep, Some(member), None).await?;
    if challenge.credentials.is_empty() {
        return Err(Error::wrong_state("this account has no passkey: give a code"));
    }
    Ok(challenge)
}

/// Returns the ways to finish a half session.
///
/// # Errors
/// `unauthenticated` when it is over.
pub async fn second_factors(ctx: &Ctx, half_token: &str) -> Result<SecondFactors, Error> {
    let member = open(ctx, ctx.db.read(), half_token).await?.member_id;
    factor::available(ctx.db.read(), MemberId(member)).await
}

/// Signs in with a passkey. With the token of a half session it is the second step; without, it is the whole sign-in,
/// because the passkey has verified its user.
///
/// # Errors
/// `wrong_passkey`; `unauthenticated` when the half session is over, or the account is retired; `rate_limited` after
/// too many wrong attempts from an address (see [`Door`]).
pub async fn passkey_sign_in(ctx: &Ctx, from: impl Into<Origin>, given: &PasskeySignIn) -> Result<Session, Error> {
    let from = from.into();
    let doors = Door::of_address(from.address);
    attempt::enter(ctx, &doors).await?;
    let (purpose, expected) = if given.half_token.is_empty() {
        (PasskeyPurpose::SignIn, None)
    } else {
        let half = open(ctx, ctx.db.read(), &given.half_token).await?;
        (PasskeyPurpose::SecondStep, Some(MemberId(half.member_id)))
    };
    let verified = passkey::verify(ctx, purpose, expected, &given.passkey).await?;
    let tokens = ctx
        .db
        .write("sign in by passkey", async |tx| {
            if let Err(refusal) = verified.spend(ctx, tx).await? {
                return Ok(Err(refusal));
            }
            if !given.half_token.is_empty() {
                // Checked again: another request may have been faster.
                let half = open(ctx, tx, &given.half_token).await?;
                half_session::Entity::delete_by_id(half.id).exec(tx).await?;
            }
            attempt::forgive(tx, &doors).await?;
            enter(ctx, tx, &verified, &from).await.map(Ok)
        })
        .await??;
    let id = verified.member;
    let row = member::Entity::find_by_id(id.0).one(ctx.db.read()).await?.ok_or_else(half_session_error)?;
    tracing::info!(member.id = %id, "a member signed in by a passkey");
    Ok(Session { member: members::with_grants(ctx.db.read(), row).await?, tokens })
}

async fn enter(ctx: &Ctx, tx: &Tx, verified: &VerifiedPasskey, from: &Origin) -> Result<TokenPair, Error> {
    signed_in(ctx, tx, verified.member, Some(FactorMethod::Passkey)).await?;
    begin(ctx, tx, verified.member, from).await
}
