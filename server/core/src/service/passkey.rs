//! A member's passkeys: registration, list, removal; and the verification of their signatures.
//!
//! A passkey verifies its user (by PIN, fingerprint or face), so it signs in alone as well as after a password. An
//! answer is accepted when its ticket is ours, for this use and not expired; when the key verifies challenge, origin
//! and relying party; when the signature counter, if there is one, has grown; and when the ticket was not answered
//! before.

mod answer;
#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{MemberId, PasskeyId, SessionId};
use undertone_api::passkey::{
    MOST_PASSKEYS, NewPasskey, Passkey, PasskeyChallenge, PasskeyRegistration, PasskeyUse, PasskeyUser,
};
use undertone_api::problem::Violation;
use undertone_api::signed::webauthn::{RegisteredPasskey, read_registration};

use crate::auth::passkey::{PasskeyPlace, PasskeyPurpose, PasskeyTicket, challenge_of, user_handle};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::error::Error;
use crate::model::passkey;
use crate::service::audit_log::{self, AuditAction, NewAuditEntry};
use crate::service::notification::credential::{self, CredentialChange};

pub(super) use answer::{VerifiedPasskey, verify};

/// Returns a challenge for a signed-in member.
///
/// # Errors
/// `proof_stale` for a registration without a fresh proof of identity; `wrong_state` where browsers have no passkeys
/// for this server, and to prove with none registered.
pub async fn challenge(ctx: &Ctx, actor: &Actor, purpose: PasskeyUse) -> Result<PasskeyChallenge, Error> {
    match purpose {
        PasskeyUse::Register => {
            policy::check(actor, Operation::ManageFactor, Place::Server)?;
            policy::check_fresh(actor)?;
            let user = PasskeyUser { handle: user_handle(actor.id()), name: actor.member.email.clone() };
            let challenge = issue(ctx, PasskeyPurpose::Register, Some(actor.id()), actor.session()).await?;
            Ok(PasskeyChallenge { user: Some(user), ..challenge })
        }
        PasskeyUse::Prove => {
            policy::check(actor, Operation::ProveIdentity, Place::Server)?;
            let challenge = issue(ctx, PasskeyPurpose::Prove, Some(actor.id()), actor.session()).await?;
            if challenge.credentials.is_empty() {
                return Err(Error::wrong_state("you have no passkey: prove your identity by your password or a code"));
            }
            Ok(challenge)
        }
    }
}

/// Makes a challenge.
///
/// # Errors
/// `wrong_state` where browsers have no passkeys for this server's address.
pub(super) async fn issue(
    ctx: &Ctx,
    purpose: PasskeyPurpose,
    member: Option<MemberId>,
    session: Option<SessionId>,
) -> Result<PasskeyChallenge, Error> {
    let place = place(ctx)?;
    let ticket = PasskeyTicket::new(purpose, member, session, ctx.random.bytes(), ctx.now());
    let text = ticket.sign(&ctx.keys.token(), ctx.now())?;
    let rows = match member {
        Some(member) => of_member(member).all(ctx.db.read()).await?,
        None => Vec::new(),
    };
    Ok(PasskeyChallenge {
        challenge: hex::encode(challenge_of(&text)),
        ticket: text,
        relying_party: place.relying_party,
        credentials: rows.into_iter().map(|row| row.credential).collect(),
        user: None,
        expires_at: ticket.expires_at(),
    })
}

/// Registers a passkey of the caller. It is a second factor from then on.
///
/// # Errors
/// `proof_stale` without a fresh proof of identity; `validation_failed` with every violation, also for the 11th passkey
/// and one that is registered already.
pub async fn create(ctx: &Ctx, actor: &Actor, new: &NewPasskey) -> Result<Passkey, Error> {
    policy::check(actor, Operation::ManageFactor, Place::Server)?;
    policy::check_fresh(actor)?;
    let violations = new.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let (ticket, made) = read(ctx, actor, &new.registration)?;
    let row = passkey::Model {
        id: ctx.id::<PasskeyId>().0,
        member_id: actor.id().0,
        label: new.label.trim().to_owned(),
        algorithm: made.algorithm.into(),
        public_key: made.public_key,
        credential_hash: fingerprint(&made.credential),
        credential: made.credential,
        counter: i64::from(made.counter),
        created_at: ctx.now(),
        last_used_at: None,
    };
    ctx.db
        .write("register passkey", async |tx| {
            if of_member(actor.id()).count(tx).await? >= MOST_PASSKEYS {
                let remedy = format!("{MOST_PASSKEYS} are the most: remove one first");
                return Err(Error::validation(vec![Violation::new("label", remedy)]));
            }
            let duplicates = passkey::Entity::find().filter(passkey::Column::CredentialHash.eq(&row.credential_hash));
            if duplicates.one(tx).await?.is_some() {
                return Err(Error::validation(vec![Violation::new(
                    "registration",
                    "this passkey is registered already",
                )]));
            }
            if !answer::note_answer(ctx, tx, &ticket).await? {
                return Err(stale_registration());
            }
            row.clone().into_active_model().insert(tx).await?;
            audit_log::record(ctx, tx, act(actor, AuditAction::PasskeyAdded, row.id.into())).await?;
            let change = CredentialChange::PasskeyAdded { label: &row.label };
            credential::announce(ctx, tx, actor.id(), change).await
        })
        .await?;
    ctx.changes().notify();
    Ok(row.into())
}

/// Returns the caller's passkeys, newest first.
///
/// # Errors
/// `forbidden` for a caller with an API key.
pub async fn list(ctx: &Ctx, actor: &Actor) -> Result<Vec<Passkey>, Error> {
    policy::check(actor, Operation::ManageFactor, Place::Server)?;
    let rows = of_member(actor.id()).order_by_desc(passkey::Column::Id).all(ctx.db.read()).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Removes a passkey of the caller: it becomes invalid.
///
/// # Errors
/// `proof_stale` without a fresh proof of identity; 404 for a passkey of another member.
pub async fn remove(ctx: &Ctx, actor: &Actor, id: PasskeyId) -> Result<(), Error> {
    policy::check(actor, Operation::ManageFactor, Place::Server)?;
    policy::check_fresh(actor)?;
    ctx.db
        .write("remove passkey", async |tx| {
            let row = passkey::Entity::find_by_id(id.0).one(tx).await?;
            let row = row.filter(|row| row.member_id == actor.id().0).ok_or_else(|| Error::not_found("passkey"))?;
            passkey::Entity::delete_by_id(row.id).exec(tx).await?;
            audit_log::record(ctx, tx, act(actor, AuditAction::PasskeyRemoved, id)).await?;
            let change = CredentialChange::PasskeyRemoved { label: &row.label };
            credential::announce(ctx, tx, actor.id(), change).await
        })
        .await?;
    ctx.changes().notify();
    Ok(())
}

/// Returns the number of a member's passkeys.
///
/// # Errors
/// When the database fails.
pub(super) async fn count(connection: &impl ConnectionTrait, member: MemberId) -> Result<u64, Error> {
    Ok(of_member(member).count(connection).await?)
}

/// Removes every passkey of a member.
///
/// # Errors
/// When the database fails.
pub(super) async fn clear(connection: &impl ConnectionTrait, member: MemberId) -> Result<(), Error> {
    passkey::Entity::delete_many().filter(passkey::Column::MemberId.eq(member.0)).exec(connection).await?;
    Ok(())
}

fn of_member(member: MemberId) -> sea_orm::Select<passkey::Entity> {
    passkey::Entity::find().filter(passkey::Column::MemberId.eq(member.0))
}

/// Returns the relying party and the origin of this server's passkeys.
fn place(ctx: &Ctx) -> Result<PasskeyPlace, Error> {
    PasskeyPlace::of_address(&ctx.addresses.http).ok_or_else(|| {
        Error::wrong_state(
            "browsers have passkeys for a name over TLS only: set `public_url` to the server's https:// name",
        )
    })
}

/// Reads a registration that answers a challenge of the caller's session.
fn read(
    ctx: &Ctx,
    actor: &Actor,
    registration: &PasskeyRegistration,
) -> Result<(PasskeyTicket, RegisteredPasskey), Error> {
    let place = place(ctx)?;
    let ticket = PasskeyTicket::open(&registration.ticket, &ctx.keys.token(), ctx.now()).filter(|ticket| {
        let is_own = ticket.member == Some(actor.id()) && ticket.session == actor.session();
        is_own && ticket.purpose == PasskeyPurpose::Register
    });
    let ticket = ticket.ok_or_else(stale_registration)?;
    let challenge = challenge_of(&registration.ticket);
    let at = (place.relying_party.as_str(), place.origin.as_str());
    let credential = read_registration(&registration.client_data, &registration.authenticator_data, &challenge, at)
        .map_err(|error| Error::validation(vec![Violation::new("registration", error.to_string())]))?;
    Ok((ticket, credential))
}

fn stale_registration() -> Error {
    let remedy = "its challenge was used or is older than five minutes: begin again";
    Error::validation(vec![Violation::new("registration.ticket", remedy)])
}

fn act<'a>(actor: &Actor, what: AuditAction, id: PasskeyId) -> NewAuditEntry<'a> {
    NewAuditEntry {
        by: actor.into(),
        what,
        place: Place::Server,
        subject: Some(("passkey", id.to_string())),
        detail: json!({}),
    }
}
