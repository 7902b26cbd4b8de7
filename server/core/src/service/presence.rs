//! A worker's proof of its identity: it signs the server's challenge with its site's key.

use sea_orm::{ActiveModelTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _};
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::{PresenceProof, Signed, public_key};

use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::{WorkOwner, recognize_caller};
use crate::model::column::JsonColumn;
use crate::model::{organization, worker};
use crate::service::challenge;

/// The highest number of job kinds that a worker may name.
const MOST_KINDS: usize = 100;

/// Signs in a worker that answers one of our challenges, and stores its supported kinds. Returns the public key (hex)
/// that signed the answer. A caller without the key changes nothing: no challenge is used up, and no transaction
/// begins.
///
/// # Errors
/// `unauthenticated` when the worker is not known, its key did not sign the answer, or the challenge is invalid or was
/// answered already; `rate_limited` for too many answers in a minute.
pub async fn sign_in(
    ctx: &Ctx,
    worker: WorkerId,
    presence: &Signed,
    version: &str,
    kinds: &[String],
) -> Result<String, Error> {
    if kinds.len() > MOST_KINDS || kinds.iter().any(|kind| kind.len() > 100) || version.len() > 100 {
        let violation = Violation::new("kinds", "at most 100 kinds, names and version of at most 100 characters");
        return Err(Error::validation(vec![violation]));
    }
    let (row, answered) = proven(ctx.db.read(), worker, presence).await?;
    challenge::check(ctx, worker, &answered)?;
    // The key is proven: use the turns of its organization, not those of unauthenticated callers.
    recognize_caller(WorkOwner::Organization(row.organization_id.into()));
    let key = ctx
        .db
        .write("worker signs in", async |tx| {
            // Checked again: the site's key may have changed.
            let (row, answered) = proven(tx, worker, presence).await?;
            challenge::spend(ctx, tx, worker, &answered).await?;
            let key = row.public_key.clone();
            let row = worker::Model {
                version: version.to_owned(),
                kinds: JsonColumn::new(kinds.to_vec())?,
                last_seen_at: Some(ctx.now()),
                ..row
            };
            row.into_active_model().reset_all().update(tx).await?;
            Ok(key)
        })
        .await?;
    tracing::info!(worker.id = %worker, worker.version = version, "a worker signed in");
    ctx.changes().notify_display();
    Ok(key)
}

/// The key of a worker's site, with the worker's organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteKey {
    /// The public key, hex.
    pub public_key: String,
    /// The organization.
    pub organization: OrganizationId,
}

/// Returns the present key of a worker's site; `None` for a worker that is unknown or retired.
///
/// # Errors
/// When the database fails.
pub async fn key(ctx: &Ctx, worker: WorkerId) -> Result<Option<SiteKey>, Error> {
    let row = worker::Entity::find_by_id(worker.0).one(ctx.db.read()).await?;
    let key = |row: worker::Model| SiteKey { public_key: row.public_key, organization: row.organization_id.into() };
    Ok(row.filter(|row| row.retired_at.is_none()).map(key))
}

/// Returns the worker whose key has signed this answer, and the challenge that it answers.
async fn proven(
    connection: &impl ConnectionTrait,
    worker: WorkerId,
    presence: &Signed,
) -> Result<(worker::Model, String), Error> {
    let refused = || Error::problem(Code::Unauthenticated, "the challenge was not answered with this worker's key");
    let row = worker::Entity::find_by_id(worker.0).one(connection).await?.ok_or_else(refused)?;
    let key = public_key(&row.public_key).map_err(|error| Error::internal("reading a worker's key", error))?;
    let answer: PresenceProof = presence.open(&key).map_err(|_| refused())?;
    if answer.worker != worker {
        return Err(refused());
    }
    // Only the holder of the key learns about the retirement.
    if row.retired_at.is_some() {
        return Err(retired());
    }
    Ok((row, answer.challenge))
}

/// Returns the error of a call by a retired worker.
pub(crate) fn retired() -> Error {
    let remedy = "this worker is retired: an admin of its organization restores it, or makes a token for a replacement";
    Error::problem(Code::Unauthenticated, remedy)
}

/// Returns the name of an organization, for a worker that has just enrolled in it.
///
/// # Errors
/// 404 when there is none.
pub async fn organization_name(ctx: &Ctx, id: OrganizationId) -> Result<String, Error> {
    let row = organization::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    Ok(row.ok_or_else(|| Error::not_found("organization"))?.name)
}
