//! Jobs: proposed, listed, shown, cancelled. What they may cost was decided by the ledger before any worker hears of them.

mod propose;
pub(crate) mod series;
pub(crate) mod state;
#[cfg(test)]
mod tests;
mod view;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::{Job, JobSummary, Progress, Step};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::entity::job;
use crate::service::{certificate, round};

pub use propose::{propose, violations};

/// The jobs of a consortium, newest first.
///
/// # Errors
/// 404 when the caller may not know the consortium, `validation_failed` for a cursor that is none.
pub async fn list(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    page: &PageQuery,
) -> Result<Page<JobSummary>, Error> {
    policy::check(actor, Operation::ReadJob, Place::Consortium(consortium))?;
    let mut query = job::Entity::find().filter(job::Column::ConsortiumId.eq(consortium.0));
    if let Some(cursor) = &page.cursor {
        let before = Uuid::parse_str(cursor)
            .map_err(|_| Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]))?;
        query = query.filter(job::Column::Id.lt(before));
    }
    let size = page.size() as usize;
    let mut rows = query.order_by_desc(job::Column::Id).limit(Some(size as u64 + 1)).all(ctx.db.read()).await?;
    let more = rows.len() > size;
    rows.truncate(size);
    let next = rows.last().filter(|_| more).map(|row| row.id.to_string());
    Ok(Page { items: rows.iter().map(view::summary).collect::<Result<_, _>>()?, next })
}

/// A job in full.
///
/// # Errors
/// 404 when there is none that the caller may know.
pub async fn get(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = readable(ctx, actor, id).await?;
    view::job(ctx, row).await
}

/// How a job stands at this moment.
///
/// # Errors
/// 404 when there is none that the caller may know.
pub async fn progress(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Progress, Error> {
    let row = readable(ctx, actor, id).await?;
    view::progress(ctx, row).await
}

/// Ends a job that is not over: its proposer may, and the consortium's admins.
///
/// # Errors
/// 404 and 403 as usual, `wrong_state` when it is over.
pub async fn cancel(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = readable(ctx, actor, id).await?;
    let place = Place::Consortium(ConsortiumId(row.consortium_id));
    policy::check(actor, Operation::CancelJob, place)?;
    let proposed_it = row.proposer_id == actor.id().0;
    let runs_consortium = actor.roles_over(row.consortium_id.into()).next().is_some();
    if !proposed_it && !runs_consortium {
        return Err(Error::forbidden("only who proposed a job, or an admin of the consortium, ends it"));
    }
    let reason = format!("cancelled by {}", actor.member.name);
    let row = ctx
        .db
        .write("cancel job", async |tx| {
            let row = state::row(tx, id).await?;
            state::step(ctx, tx, row, Step::Cancel, Some(reason.clone())).await
        })
        .await?;
    round::clear(ctx, id).await;
    certificate::issue_if_due(ctx, id).await;
    ctx.wake().ring();
    view::job(ctx, row).await
}

/// A job in a list, for whoever has its row.
pub(crate) fn summary(row: &job::Model) -> Result<JobSummary, Error> {
    view::summary(row)
}

/// The row of a job that the caller may read.
pub(crate) async fn readable(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<job::Model, Error> {
    let row = state::row(ctx.db.read(), id).await?;
    let place = Place::Consortium(ConsortiumId(row.consortium_id));
    policy::check(actor, Operation::ReadJob, place).map_err(|_| Error::not_found("job"))?;
    Ok(row)
}

/// The job as a view, for whoever has changed it.
pub(crate) async fn shown(ctx: &Ctx, row: job::Model) -> Result<Job, Error> {
    view::job(ctx, row).await
}
