//! How a worker proves that it is there: it signs the server's challenge with its site's key.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::{Presence, Signed, public_key};

use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::code::to_json;
use crate::service::entity::{organization, worker};

/// Most job kinds that a worker may name.
const MOST_KINDS: usize = 100;

/// Signs a worker in that answers `challenge`, and notes what it can run.
///
/// # Errors
/// `unauthenticated` when the worker is not known or its key did not sign this challenge.
pub async fn sign_in(
    ctx: &Ctx,
    worker: WorkerId,
    challenge: &str,
    presence: &Signed,
    version: &str,
    kinds: &[String],
) -> Result<(), Error> {
    let refused = || Error::problem(Code::Unauthenticated, "the challenge was not answered with this worker's key");
    if kinds.len() > MOST_KINDS || kinds.iter().any(|kind| kind.len() > 100) || version.len() > 100 {
        let violation = Violation::new("kinds", "at most 100 kinds, names and version of at most 100 characters");
        return Err(Error::validation(vec![violation]));
    }
    ctx.db
        .write("worker signs in", async |tx| {
            let row = worker::Entity::find_by_id(worker.0).one(tx).await?.ok_or_else(refused)?;
            let key = public_key(&row.public_key).map_err(|error| Error::internal("reading a worker's key", error))?;
            let answer: Presence = presence.open(&key).map_err(|_| refused())?;
            if answer.worker != worker || answer.challenge != challenge {
                return Err(refused());
            }
            let row = worker::Model {
                version: version.to_owned(),
                kinds: to_json(&kinds)?,
                last_seen_at: Some(ctx.now()),
                ..row
            };
            row.into_active_model().reset_all().update(tx).await?;
            Ok(())
        })
        .await?;
    tracing::info!(worker.id = %worker, worker.version = version, "a worker signed in");
    ctx.wake().ring();
    Ok(())
}

/// The name of an organization, for a worker that has just enrolled in it.
///
/// # Errors
/// 404 when there is none.
pub async fn organization_name(ctx: &Ctx, id: OrganizationId) -> Result<String, Error> {
    let row = organization::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    Ok(row.ok_or_else(|| Error::not_found("organization"))?.name)
}
