//! Proves a signed-in member's identity once more. Operations that make credentials or remove access require a proof
//! not older than [`FRESH`](crate::auth::FRESH): an attacker at an unlocked browser cannot give one.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use undertone_api::account::IdentityProof;
use undertone_api::passkey::PasskeyAssertion;
use undertone_api::problem::{Code, Violation};

use crate::auth::passkey::PasskeyPurpose;
use crate::auth::{Actor, Door, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::session;
use crate::service::{attempt, factor, passkey, password};

/// Proves the caller's identity by their password, by a code of their second factor, or by a passkey.
///
/// # Errors
/// `validation_failed` unless exactly one of the three is given; `wrong_credentials`, `wrong_code`, `wrong_passkey`,
/// `wrong_state` for a code without a second factor; `rate_limited` after too many wrong ones; `forbidden` for a caller
/// with a key.
pub async fn prove_identity(ctx: &Ctx, actor: &Actor, given: &IdentityProof) -> Result<(), Error> {
    policy::check(actor, Operation::ProveIdentity, Place::Server)?;
    match (given.password.is_empty(), given.code.is_empty(), &given.passkey) {
        (false, true, None) => {
            password::prove_own(ctx, actor, &given.password).await?;
            ctx.db.write("prove identity", async |tx| mark(ctx, tx, actor).await).await
        }
        (true, false, None) => factor::with_proof(ctx, actor, &given.code, async |tx| mark(ctx, tx, actor).await).await,
        (true, true, Some(assertion)) => prove_by_passkey(ctx, actor, assertion).await,
        _ => {
            let message = "give your password, a code of your second factor, or a passkey's answer: one of the three";
            Err(Error::validation(vec![Violation::new("password", message)]))
        }
    }
}

async fn prove_by_passkey(ctx: &Ctx, actor: &Actor, assertion: &PasskeyAssertion) -> Result<(), Error> {
    let door = [Door::Own(actor.id())];
    attempt::enter(ctx, &door).await?;
    let verified = passkey::verify(ctx, PasskeyPurpose::Prove, Some(actor.id()), assertion).await?;
    if !verified.is_of_session(actor.session()) {
        return Err(Error::problem(Code::WrongPasskey, "the challenge was asked for by another session: begin again"));
    }
    ctx.db
        .write("prove identity by passkey", async |tx| {
            if let Err(refusal) = verified.spend(ctx, tx).await? {
                return Ok(Err(refusal));
            }
            attempt::forgive(tx, &door).await?;
            mark(ctx, tx, actor).await.map(Ok)
        })
        .await?
}

/// Notes the time of the proof in the caller's session.
async fn mark(ctx: &Ctx, tx: &Tx, actor: &Actor) -> Result<(), Error> {
    let Some(id) = actor.session() else { return Ok(()) };
    if let Some(row) = session::Entity::find_by_id(id.0).one(tx).await? {
        let row = session::Model { proven_at: Some(ctx.now()), ..row };
        row.into_active_model().reset_all().update(tx).await?;
    }
    Ok(())
}
