//! Passwords: verification and change. `auth::password` hashes them.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use serde_json::json;
use undertone_api::account::ChangePassword;
use undertone_api::id::MemberId;
use undertone_api::member::check_password;
use undertone_api::problem::{Code, Violation};

use crate::auth::{Actor, Door, Operation, Origin, PasswordCaller, Place, is_easily_guessed, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::metrics::Limit;
use crate::model::member;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::credential::{self, CredentialChange};
use crate::service::{api_key, attempt, member as members, sessions};

/// The highest number of bytes of a password that is hashed: 200 characters have no more.
const LONGEST: usize = 800;

/// Changes the caller's password. Every other session of the caller ends, and their API keys are revoked unless they
/// keep them; this session continues.
///
/// # Errors
/// `wrong_credentials` for the old one, `rate_limited` after too many of those, `validation_failed` for the new one.
pub async fn change(ctx: &Ctx, actor: &Actor, change: &ChangePassword) -> Result<(), Error> {
    policy::check(actor, Operation::ChangePassword, Place::Server)?;
    let mut violations = check_choice("new", &change.new, &[&actor.member.name, &actor.member.email]);
    if change.new == change.old {
        violations.push(Violation::new("new", "choose another password than the one you have"));
    }
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let proven = prove_own(ctx, actor, &change.old).await?;
    let hash = ctx.passwords.hash(&change.new, ctx.random.bytes()).await?;
    ctx.db
        .write("change password", async |tx| {
            still(tx, &proven).await?;
            set(tx, actor.id(), &hash).await?;
            let ended = sessions::end_all(ctx, tx, actor.id(), actor.session()).await?;
            let revoked = if change.keep_keys { 0 } else { api_key::revoke_all(ctx, tx, actor.id()).await? };
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::PasswordChanged,
                place: Place::Server,
                subject: Some(("member", actor.id().to_string())),
                detail: json!({ "sessions_ended": ended, "keys_revoked": revoked }),
            };
            audit_log::record(ctx, tx, act).await?;
            let change = CredentialChange::PasswordChanged { keys_revoked: revoked };
            credential::announce(ctx, tx, actor.id(), change).await
        })
        .await?;
    ctx.changes().notify_standings();
    tracing::info!(member.id = %actor.id(), "a password was changed");
    Ok(())
}

/// Returns the violations of a new password, given known facts about its owner.
pub(super) fn check_choice(field: &str, password: &str, known: &[&str]) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_password(field, password, &mut violations);
    if violations.is_empty() && is_easily_guessed(password, known) {
        let remedy = "this is among the passwords that are guessed first: use a sentence of your own";
        violations.push(Violation::new(field, remedy));
    }
    violations
}

/// Checks the password of an account, slowly and with a rate limit. Neither the response nor its time reveals the
/// existence of an account. The attempt stays counted until the caller forgives these counters in its own transaction.
///
/// # Errors
/// `wrong_credentials`; `rate_limited` after too many of those; `unavailable` when too many passwords wait to be
/// hashed.
pub(super) async fn prove(
    ctx: &Ctx,
    from: &Origin,
    email: &str,
    password: &str,
    row: Option<&member::Model>,
) -> Result<Vec<Door>, Error> {
    // If no password can be hashed soon, no attempt is made, and none is counted.
    expect_room(ctx)?;
    let place = ctx.passwords.enter(from.address).inspect_err(|_| ctx.metrics.reach(Limit::PasswordQueue))?;
    // On a device on which a member signed in before, guesses from elsewhere do not block them.
    let device = row.map(|row| MemberId(row.id)).filter(|id| from.is_device_of(*id));
    let mut doors = Door::of_address(from.address);
    doors.push(device.map_or_else(|| Door::Email(members::normal_email(email)), Door::Device));
    attempt::enter(ctx, &doors).await?;
    if verified(ctx, place.caller(), password, row).await? { Ok(doors) } else { Err(wrong()) }
}

/// Checks the password of a signed-in member: another person may use their screen. Returns the row of the checked
/// password.
///
/// # Errors
/// As [`prove`].
pub(super) async fn prove_own(ctx: &Ctx, actor: &Actor, password: &str) -> Result<member::Model, Error> {
    expect_room(ctx)?;
    let doors = [Door::Own(actor.id())];
    attempt::enter(ctx, &doors).await?;
    let row = member::Entity::find_by_id(actor.id().0).one(ctx.db.read()).await?;
    let right = verified(ctx, PasswordCaller::current(), password, row.as_ref()).await?;
    let wrong = || Error::problem(Code::WrongCredentials, "give the password that you sign in with");
    let row = row.filter(|_| right).ok_or_else(wrong)?;
    ctx.db.write("forgive an attempt", async |tx| attempt::forgive(tx, &doors).await).await?;
    Ok(row)
}

/// Rejects a password that was verified before this transaction and changed since. Verification takes a while, and a
/// change must also block sign-ins in progress.
///
/// # Errors
/// `wrong_credentials`.
pub(super) async fn still(tx: &Tx, proven: &member::Model) -> Result<(), Error> {
    let now = member::Entity::find_by_id(proven.id).one(tx).await?;
    if now.is_some_and(|now| now.password_hash == proven.password_hash) { Ok(()) } else { Err(wrong()) }
}

/// Returns whether a member has a password. A member created by a sign-in at a provider has none until a reset by a
/// link.
///
/// # Errors
/// When the database fails.
pub(super) async fn has(ctx: &Ctx, id: MemberId) -> Result<bool, Error> {
    let row = member::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    Ok(row.is_some_and(|row| !row.password_hash.is_empty()))
}

/// Sets a member's password.
pub(super) async fn set(tx: &Tx, id: MemberId, hash: &str) -> Result<(), Error> {
    let row = member::Entity::find_by_id(id.0).one(tx).await?.ok_or_else(|| Error::not_found("member"))?;
    member::Model { password_hash: hash.to_owned(), ..row }.into_active_model().reset_all().update(tx).await?;
    Ok(())
}

/// Rejects an attempt whose password could not be hashed soon.
fn expect_room(ctx: &Ctx) -> Result<(), Error> {
    ctx.passwords.expect_room().inspect_err(|_| ctx.metrics.reach(Limit::PasswordQueue))
}

pub(super) fn wrong() -> Error {
    Error::problem(Code::WrongCredentials, "check e-mail and password")
}

/// Checks a password against a member's hash. A password above the length limit is wrong without being hashed. Without
/// an account or its password the result is false, after the same work.
async fn verified(
    ctx: &Ctx,
    caller: PasswordCaller,
    password: &str,
    row: Option<&member::Model>,
) -> Result<bool, Error> {
    let stored = row.map(|row| row.password_hash.as_str()).filter(|hash| !hash.is_empty());
    Ok(password.len() <= LONGEST && ctx.passwords.verify(caller, password, stored).await?)
}
