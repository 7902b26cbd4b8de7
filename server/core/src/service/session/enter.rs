//! Sign-in with a password, and a code where there is a second factor. In between, a half session proves to [`finish`]
//! that the password was correct, and is valid for nothing else.

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use serde_json::json;
use time::Duration;
use undertone_api::account::{HalfSession, SecondStep};
use undertone_api::id::MemberId;
use undertone_api::problem::Code;
use undertone_api::session::{Session, SignIn, TokenPair};
use uuid::Uuid;

use super::begin;
use crate::auth::{Door, Origin, Place};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::fairness::{WorkOwner, recognize_caller};
use crate::model::{half_session, member};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::factor::{self, FactorMethod};
use crate::service::notification::credential::{self, CredentialChange};
use crate::service::{attempt, member as members, password};

/// The validity of a half session.
const HALF: Duration = Duration::minutes(5);

/// The result of a correct password.
#[derive(Debug, Clone, PartialEq)]
pub enum SignInResult {
    /// A session.
    Whole(Session),
    /// The member has a second factor: a code is required.
    Half(HalfSession),
}

/// Signs in. Neither the response nor its time distinguishes a wrong e-mail address from a wrong password.
///
/// # Errors
/// `wrong_credentials`; `rate_limited` after too many of those (see [`Door`]).
pub async fn sign_in(ctx: &Ctx, from: impl Into<Origin>, credentials: &SignIn) -> Result<SignInResult, Error> {
    let from = from.into();
    let row = members::by_email(ctx.db.read(), &credentials.email).await?;
    let proven = password::prove(ctx, &from, &credentials.email, &credentials.password, row.as_ref()).await;
    let (doors, row) = match (proven, row) {
        (Ok(doors), Some(row)) => (doors, row),
        (Err(error), row) if error.code() == Code::WrongCredentials => {
            attempt::note_failure(ctx, row.map(|row| MemberId(row.id)), AuditAction::SignInFailed);
            return Err(error);
        }
        (Err(error), _) => return Err(error),
        (Ok(_), None) => return Err(password::wrong()),
    };
    let id = MemberId(row.id);
    // The password is proven: use the member's turns, not those of unauthenticated callers.
    recognize_caller(WorkOwner::Member(id));
    let admitted = ctx
        .db
        .write("sign in", async |tx| {
            password::still(tx, &row).await?;
            attempt::forgive(tx, &doors).await?;
            admit(ctx, tx, id, &from).await
        })
        .await?;
    match admitted {
        Err(half) => Ok(SignInResult::Half(half)),
        Ok(tokens) => {
            let member = members::with_grants(ctx.db.read(), row).await?;
            tracing::info!(member.id = %id, "a member signed in");
            Ok(SignInResult::Whole(Session { member, tokens }))
        }
    }
}

/// Completes the second step with a code of the authenticator, or a recovery code. A correct code is used up.
///
/// # Errors
/// `unauthenticated` when the half session is over; `wrong_code`; `rate_limited` after 5 of those within 15 minutes, or
/// 20 within a day.
pub async fn finish(ctx: &Ctx, from: impl Into<Origin>, step: &SecondStep) -> Result<Session, Error> {
    let from = from.into();
    let member = open(ctx, ctx.db.read(), &step.half_token).await?.member_id;
    let id = MemberId(member);
    let mut doors = Door::of_address(from.address);
    doors.extend(Door::of_codes(id));
    attempt::enter(ctx, &doors).await?;
    let tokens = ctx
        .db
        .write("finish signing in", async |tx| {
            // Checked again: another request may have been faster.
            let half = open(ctx, tx, &step.half_token).await?;
            let Some(proof) = factor::spend(ctx, tx, id, &step.code).await? else {
                factor::notify_wrong_codes(ctx, tx, id).await?;
                return Ok(None);
            };
            half_session::Entity::delete_by_id(half.id).exec(tx).await?;
            attempt::forgive(tx, &doors).await?;
            signed_in(ctx, tx, id, Some(proof)).await?;
            begin(ctx, tx, id, &from).await.map(Some)
        })
        .await?;
    let Some(tokens) = tokens else {
        attempt::note_failure(ctx, Some(id), AuditAction::SecondFactorFailed);
        return Err(factor::wrong());
    };
    let row = member::Entity::find_by_id(member).one(ctx.db.read()).await?.ok_or_else(half_session_error)?;
    tracing::info!(member.id = %id, "a member signed in with a second factor");
    Ok(Session { member: members::with_grants(ctx.db.read(), row).await?, tokens })
}

/// Signs in a member whose identity was proven without a password. A code is required all the same where there is a
/// second factor.
pub(in crate::service) async fn admit(
    ctx: &Ctx,
    tx: &Tx,
    member: MemberId,
    from: &Origin,
) -> Result<Result<TokenPair, HalfSession>, Error> {
    if factor::in_force(tx, member).await? {
        return half(ctx, tx, member, &ctx.random.secret()).await.map(Err);
    }
    signed_in(ctx, tx, member, None).await?;
    begin(ctx, tx, member, from).await.map(Ok)
}

/// Begins a half session; deletes the member's expired ones.
async fn half(ctx: &Ctx, tx: &Tx, member: MemberId, secret: &str) -> Result<HalfSession, Error> {
    half_session::Entity::delete_many()
        .filter(half_session::Column::MemberId.eq(member.0))
        .filter(half_session::Column::ExpiresAt.lte(ctx.now()))
        .exec(tx)
        .await?;
    let row = half_session::Model {
        id: ctx.id::<Uuid>(),
        member_id: member.0,
        secret_hash: fingerprint(secret),
        created_at: ctx.now(),
        expires_at: ctx.now() + HALF,
    };
    let row = row.into_active_model().insert(tx).await?;
    let factors = factor::available(tx, member).await?;
    Ok(HalfSession { half_token: secret.to_owned(), factors, expires_at: row.expires_at })
}

pub(super) async fn open(
    ctx: &Ctx,
    connection: &impl sea_orm::ConnectionTrait,
    token: &str,
) -> Result<half_session::Model, Error> {
    let row = half_session::Entity::find()
        .filter(half_session::Column::SecretHash.eq(fingerprint(token)))
        .one(connection)
        .await?;
    row.filter(|row| row.expires_at > ctx.now()).ok_or_else(half_session_error)
}

pub(super) async fn signed_in(ctx: &Ctx, tx: &Tx, member: MemberId, proof: Option<FactorMethod>) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: AuditAuthor::Member(member),
        what: AuditAction::SignedIn,
        place: Place::Server,
        subject: Some(("member", member.to_string())),
        detail: json!({ "second_factor": proof.is_some(), "passkey": proof == Some(FactorMethod::Passkey) }),
    };
    audit_log::record(ctx, tx, act.clone()).await?;
    if proof == Some(FactorMethod::Recovery) {
        audit_log::record(ctx, tx, NewAuditEntry { what: AuditAction::RecoveryCodeUsed, detail: json!({}), ..act })
            .await?;
        credential::announce(ctx, tx, member, CredentialChange::RecoveryCodeUsed).await?;
    }
    Ok(())
}

pub(super) fn half_session_error() -> Error {
    Error::problem(Code::Unauthenticated, "this took longer than five minutes: sign in again from the beginning")
}
