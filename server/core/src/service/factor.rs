//! A member's second factor: a secret in an authenticator, and ten recovery codes on paper. Passkeys are second factors
//! as well (`service::passkey`).
//!
//! A secret is offered once and is in force after its first correct code. A correct code is used up: its step and all
//! earlier ones become invalid, on every replica. Recovery codes have 80 random bits and are stored as hashes.

mod kept;
#[cfg(test)]
mod tests;
mod wrong;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _,
};
use serde_json::json;
use time::Duration;
use undertone_api::account::{
    FactorCode, FactorOffer, FactorProof, FactorStatus, RECOVERY_CODES, RecoveryCodes, SecondFactors,
};
use undertone_api::id::MemberId;
use undertone_api::problem::Code;
use uuid::Uuid;

use crate::auth::{Actor, Door, Operation, Place, factor, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::model::{half_session, recovery_code, second_factor};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::credential::{self, CredentialChange};
use crate::service::{attempt, passkey, password};

pub use kept::{count_locked_out, count_sealed, reseal};
pub(super) use wrong::notify_wrong_codes;

/// The time in which an offered secret must be confirmed with a code.
pub(crate) const OFFER: Duration = Duration::minutes(15);
/// The number of random bytes of a recovery code.
const RECOVERY: usize = 10;

/// The kind of a correct code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactorMethod {
    /// From the authenticator.
    Authenticator,
    /// A recovery code, which is used up.
    Recovery,
    /// From a passkey.
    Passkey,
}

/// Returns the state of the caller's second factor.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn state(ctx: &Ctx, actor: &Actor) -> Result<FactorStatus, Error> {
    policy::check(actor, Operation::ReadSelf, Place::Server)?;
    let row = second_factor::Entity::find_by_id(actor.id().0).one(ctx.db.read()).await?;
    let codes_left = recovery_code::Entity::find()
        .filter(recovery_code::Column::MemberId.eq(actor.id().0))
        .filter(recovery_code::Column::UsedAt.is_null())
        .count(ctx.db.read())
        .await?;
    let waits = |row: &second_factor::Model| row.confirmed_at.is_none() && row.offered_at + OFFER > ctx.now();
    Ok(FactorStatus {
        since: row.as_ref().and_then(|row| row.confirmed_at),
        offered: row.as_ref().is_some_and(waits),
        recovery_codes_left: codes_left as u32,
        passkeys: passkey::count(ctx.db.read(), actor.id()).await? as u32,
        required: ctx.config.require_two_factor,
        password: password::has(ctx, actor.id()).await?,
    })
}

/// Offers a secret, which replaces an earlier offer. Sign-in does not require it until [`confirm`].
///
/// # Errors
/// `wrong_state` while a second factor is in force.
pub async fn offer(ctx: &Ctx, actor: &Actor) -> Result<FactorOffer, Error> {
    policy::check(actor, Operation::ManageFactor, Place::Server)?;
    policy::check_fresh(actor)?;
    let (secret, nonce) = (ctx.random.bytes::<{ factor::SECRET }>(), ctx.random.bytes::<{ factor::NONCE }>());
    let row = second_factor::Model {
        member_id: actor.id().0,
        secret: factor::seal(ctx.keys.factor().current(ctx.now()), actor.id(), &secret, nonce)?,
        last_step: 0,
        offered_at: ctx.now(),
        confirmed_at: None,
    };
    ctx.db
        .write("offer a second factor", async |tx| {
            if takes_codes(tx, actor.id()).await? {
                return Err(Error::wrong_state("two-factor is on: switch it off before you set up another device"));
            }
            second_factor::Entity::delete_by_id(actor.id().0).exec(tx).await?;
            row.clone().into_active_model().insert(tx).await?;
            Ok(())
        })
        .await?;
    let host = ctx.addresses.http.split_once("://").map_or("", |(_, host)| host);
    Ok(FactorOffer {
        secret: factor::base32(&secret),
        uri: factor::uri(&secret, &actor.member.email, host),
        expires_at: row.offered_at + OFFER,
    })
}

/// Confirms the offered secret with a code, and makes recovery codes.
///
/// # Errors
/// `wrong_state` when none is offered, `wrong_code`, `rate_limited` after too many of those.
pub async fn confirm(ctx: &Ctx, actor: &Actor, given: &FactorCode) -> Result<RecoveryCodes, Error> {
    policy::check(actor, Operation::ManageFactor, Place::Server)?;
    let door = [Door::Code(actor.id())];
    attempt::enter(ctx, &door).await?;
    let codes = fresh(ctx);
    ctx.db
        .write("confirm a second factor", async |tx| {
            let row = second_factor::Entity::find_by_id(actor.id().0).one(tx).await?;
            let row = row
                .filter(|row| row.confirmed_at.is_none() && row.offered_at + OFFER > ctx.now())
                .ok_or_else(|| Error::wrong_state("no secret waits for a code: begin again"))?;
            let step = step(ctx, actor.id(), &row, &given.code)?.ok_or_else(wrong)?;
            let row = second_factor::Model { last_step: step, confirmed_at: Some(ctx.now()), ..row };
            row.into_active_model().reset_all().update(tx).await?;
            replace(ctx, tx, actor.id(), &codes).await?;
            attempt::forgive(tx, &door).await?;
            audit_log::record(ctx, tx, act(actor, AuditAction::SecondFactorOn)).await?;
            credential::announce(ctx, tx, actor.id(), CredentialChange::SecondFactorOn).await
        })
        .await?;
    ctx.changes().notify();
    tracing::info!(member.id = %actor.id(), "a second factor was switched on");
    Ok(RecoveryCodes { codes })
}

/// Makes new recovery codes; earlier ones become invalid.
///
/// # Errors
/// `wrong_state` while there is no second factor, `wrong_code`, `rate_limited` after too many of those.
pub async fn renew_codes(ctx: &Ctx, actor: &Actor, given: &FactorCode) -> Result<RecoveryCodes, Error> {
    policy::check(actor, Operation::ManageFactor, Place::Server)?;
    let codes = fresh(ctx);
    with_proof(ctx, actor, &given.code, async |tx| {
        replace(ctx, tx, actor.id(), &codes).await?;
        audit_log::record(ctx, tx, act(actor, AuditAction::RecoveryCodesMade)).await?;
        credential::announce(ctx, tx, actor.id(), CredentialChange::RecoveryCodesMade).await
    })
    .await?;
    ctx.changes().notify();
    Ok(RecoveryCodes { codes })
}

/// Switches the second factor off. It requires the password and a code. A member without a password, because of sign-in
/// with a provider, proves only a code.
///
/// # Errors
/// `wrong_state` while there is none, `wrong_credentials`, `wrong_code`, `rate_limited` after too many of those.
pub async fn drop(ctx: &Ctx, actor: &Actor, proof: &FactorProof) -> Result<(), Error> {
    policy::check(actor, Operation::ManageFactor, Place::Server)?;
    if password::has(ctx, actor.id()).await? {
        password::prove_own(ctx, actor, &proof.password).await?;
    }
    with_proof(ctx, actor, &proof.code, async |tx| {
        clear_codes(tx, actor.id()).await?;
        audit_log::record(ctx, tx, act(actor, AuditAction::SecondFactorOff)).await?;
        credential::announce(ctx, tx, actor.id(), CredentialChange::SecondFactorOff).await
    })
    .await?;
    tracing::info!(member.id = %actor.id(), "a second factor was switched off");
    Ok(())
}

/// Returns whether the member's sign-in requires a second factor.
pub(super) async fn in_force(connection: &impl ConnectionTrait, member: MemberId) -> Result<bool, Error> {
    let SecondFactors { code, passkey } = available(connection, member).await?;
    Ok(code || passkey)
}

/// Returns the second factors that a member has.
pub(super) async fn available(connection: &impl ConnectionTrait, member: MemberId) -> Result<SecondFactors, Error> {
    let code = takes_codes(connection, member).await?;
    let passkey = passkey::count(connection, member).await? > 0;
    Ok(SecondFactors { code, passkey })
}

/// Returns whether the member has an authenticator that shows codes.
async fn takes_codes(connection: &impl ConnectionTrait, member: MemberId) -> Result<bool, Error> {
    let row = second_factor::Entity::find_by_id(member.0).one(connection).await?;
    Ok(row.is_some_and(|row| row.confirmed_at.is_some()))
}

/// Uses up a code: the authenticator's for a valid step, or a recovery code. Returns `None` when it is neither.
pub(super) async fn spend(ctx: &Ctx, tx: &Tx, member: MemberId, code: &str) -> Result<Option<FactorMethod>, Error> {
    let row = second_factor::Entity::find_by_id(member.0).one(tx).await?;
    let Some(row) = row.filter(|row| row.confirmed_at.is_some()) else { return Ok(None) };
    if let Some(step) = step(ctx, member, &row, code)? {
        second_factor::Model { last_step: step, ..row }.into_active_model().reset_all().update(tx).await?;
        return Ok(Some(FactorMethod::Authenticator));
    }
    let row = recovery_code::Entity::find()
        .filter(recovery_code::Column::MemberId.eq(member.0))
        .filter(recovery_code::Column::CodeHash.eq(hash(code)))
        .filter(recovery_code::Column::UsedAt.is_null())
        .one(tx)
        .await?;
    let Some(row) = row else { return Ok(None) };
    recovery_code::Model { used_at: Some(ctx.now()), ..row }.into_active_model().reset_all().update(tx).await?;
    Ok(Some(FactorMethod::Recovery))
}

/// Deletes every second factor with its data, including passkeys.
pub(super) async fn clear(tx: &Tx, member: MemberId) -> Result<(), Error> {
    passkey::clear(tx, member).await?;
    clear_codes(tx, member).await
}

/// Deletes the authenticator's secret and the recovery codes.
async fn clear_codes(tx: &Tx, member: MemberId) -> Result<(), Error> {
    second_factor::Entity::delete_by_id(member.0).exec(tx).await?;
    recovery_code::Entity::delete_many().filter(recovery_code::Column::MemberId.eq(member.0)).exec(tx).await?;
    half_session::Entity::delete_many().filter(half_session::Column::MemberId.eq(member.0)).exec(tx).await?;
    Ok(())
}

/// Returns the error for a wrong or used code; it does not distinguish the two.
pub(super) fn wrong() -> Error {
    Error::problem(Code::WrongCode, "give the six digits that the authenticator shows now; each works once")
}

/// Runs `work` if the code is correct, which uses it up; logs a wrong one.
pub(super) async fn with_proof(
    ctx: &Ctx,
    actor: &Actor,
    code: &str,
    work: impl AsyncFn(&Tx) -> Result<(), Error>,
) -> Result<(), Error> {
    if !takes_codes(ctx.db.read(), actor.id()).await? {
        return Err(Error::wrong_state("two-factor is off: there is no code to give"));
    }
    let doors = Door::of_codes(actor.id());
    attempt::enter(ctx, &doors).await?;
    let right = ctx
        .db
        .write("use a code", async |tx| {
            let Some(proof) = spend(ctx, tx, actor.id(), code).await? else {
                audit_log::record(ctx, tx, act(actor, AuditAction::SecondFactorFailed)).await?;
                notify_wrong_codes(ctx, tx, actor.id()).await?;
                return Ok(false);
            };
            if proof == FactorMethod::Recovery {
                audit_log::record(ctx, tx, act(actor, AuditAction::RecoveryCodeUsed)).await?;
                credential::announce(ctx, tx, actor.id(), CredentialChange::RecoveryCodeUsed).await?;
            }
            attempt::forgive(tx, &doors).await?;
            work(tx).await?;
            Ok(true)
        })
        .await?;
    if right { Ok(()) } else { Err(wrong()) }
}

/// Returns the step of `code`, if it is valid.
fn step(ctx: &Ctx, member: MemberId, row: &second_factor::Model, code: &str) -> Result<Option<i64>, Error> {
    let digits: String = code.chars().filter(|letter| !letter.is_whitespace()).collect();
    let secret = factor::unseal(&ctx.keys.factor(), member, &row.secret)?;
    let step = factor::step_of(&secret, &digits, ctx.now().unix_timestamp())?;
    Ok(step.filter(|step| *step > row.last_step))
}

/// Makes recovery codes: sixteen letters and digits in groups of four.
fn fresh(ctx: &Ctx) -> Vec<String> {
    let fours = |text: String| {
        let parts: Vec<_> = text.as_bytes().chunks(4).map(|four| String::from_utf8_lossy(four).into_owned()).collect();
        parts.join("-")
    };
    (0..RECOVERY_CODES).map(|_| fours(factor::base32(&ctx.random.bytes::<RECOVERY>()))).collect()
}

async fn replace(ctx: &Ctx, tx: &Tx, member: MemberId, codes: &[String]) -> Result<(), Error> {
    recovery_code::Entity::delete_many().filter(recovery_code::Column::MemberId.eq(member.0)).exec(tx).await?;
    let rows = codes.iter().map(|code| {
        let row = recovery_code::Model {
            id: ctx.id::<Uuid>(),
            member_id: member.0,
            code_hash: hash(code),
            created_at: ctx.now(),
            used_at: None,
        };
        row.into_active_model()
    });
    recovery_code::Entity::insert_many(rows).exec_without_returning(tx).await?;
    Ok(())
}

/// Returns the hash of a recovery code, whatever its case and the separators between the groups.
fn hash(code: &str) -> String {
    let letters: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
    fingerprint(&letters.to_ascii_uppercase())
}

fn act(actor: &Actor, what: AuditAction) -> NewAuditEntry<'static> {
    NewAuditEntry {
        by: AuditAuthor::from(actor),
        what,
        place: Place::Server,
        subject: Some(("member", actor.id().to_string())),
        detail: json!({}),
    }
}
