//! The offers to workers that ask for work: a job to decide about, a part to run, or nothing. Most workers wait. One
//! query finds the due offers of all workers, and only a worker that it concerns queries for itself.

mod due;
#[cfg(test)]
mod tests;

use std::time::Duration;

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use time::OffsetDateTime;
use tokio::time::Instant;
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::job::{DatasetUse, JobState};
use undertone_api::problem::Code;
use undertone_api::signed::{Signed, SignedApproval};

use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::participant::PartState;
use crate::model::{job as jobs, lease, participant, worker};
use crate::rule::job::load_job;
use crate::service::approval::consent;
use crate::service::finish;
use crate::service::job;
use crate::service::lease as leases;
use crate::service::restoration;

/// The longest wait that a worker may request, seconds.
pub const LONGEST_WAIT: u32 = 60;
/// The interval of queries for changes by other replicas or by time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The age up to which a poll may reuse the query of another worker.
const SHARED: Duration = Duration::from_millis(500);
/// The minimum time between two stored signs of life of a worker, seconds.
const SIGN_OF_LIFE: i64 = 15;

/// A worker's request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfferRequest {
    /// The requested wait, seconds.
    pub wait_seconds: u32,
    /// The digests of the manifests that it knows.
    pub decided: Vec<String>,
    /// The tokens of the leases that it holds.
    pub leases: Vec<String>,
}

/// The response to a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkOffer {
    /// No offer within the time.
    Nothing,
    /// A proposed job that names a dataset of its site.
    Proposal {
        /// The manifest.
        manifest: Signed,
        /// The dataset.
        dataset: DatasetId,
    },
    /// A part to run now.
    Work {
        /// The manifest.
        manifest: Signed,
        /// The dataset.
        dataset: DatasetId,
        /// The fencing token.
        lease: String,
        /// The steward who approved this manifest at the server; empty without one.
        steward: Option<String>,
        /// The steward's signed approval, for the site to verify.
        approval: Option<Box<SignedApproval>>,
    },
}

/// Waits for an offer for this worker. The request is also its sign of life.
///
/// # Errors
/// When the worker is not known; `unauthenticated` when its key changes while it waits.
pub async fn next(ctx: &Ctx, id: WorkerId, asking: &OfferRequest) -> Result<WorkOffer, Error> {
    let wait = Duration::from_secs(u64::from(asking.wait_seconds.min(LONGEST_WAIT)));
    let end = Instant::now() + wait;
    let mut waiter = ctx.changes().subscribe_to_offers();
    finish::finish_silent(ctx).await?;
    job::lapse(ctx).await?;
    let mut since = Instant::now();
    let (mut key, mut alive): (Option<String>, Option<OffsetDateTime>) = (None, None);
    loop {
        let (now, may_be) = due::check_due(ctx, id, asking, since).await?;
        if *key.get_or_insert_with(|| now.clone()) != now {
            return Err(Error::problem(Code::Unauthenticated, "the site's key has changed: sign in with it"));
        }
        if may_be || alive.is_none_or(|at| (ctx.now() - at).whole_seconds() >= SIGN_OF_LIFE) {
            let worker = mark_seen(ctx, id).await?;
            alive = Some(ctx.now());
            // A worker must first return the receipts that a restored server lacks; until then it gets no offer.
            if restoration::waiting(ctx.db.read(), [id.0]).await?.is_empty() {
                if let Some(offer) = proposal(ctx, id, asking).await? {
                    return Ok(offer);
                }
                if let Some(offer) = work(ctx, &worker, asking).await? {
                    return Ok(offer);
                }
            }
        }
        let remaining = end.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Ok(WorkOffer::Nothing);
        }
        let (began, pause) = (Instant::now(), remaining.min(LOOK_AGAIN));
        tokio::select! {
            () = waiter.wait(pause) => {}
            () = ctx.shutdown.cancelled() => return Ok(WorkOffer::Nothing),
        }
        // After a notification, only a query from now on includes the change; after a mere timeout, another worker's
        // recent query is enough.
        let now = Instant::now();
        since = if now - began < pause { now } else { now.checked_sub(SHARED).unwrap_or(now) };
    }
}

/// Stores a sign of life, at most every few seconds. Presence decides nothing, and the column is set to a time
/// independent of the row. So it does not use the single writer, which hundreds of waiting workers would slow down.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn mark_seen(ctx: &Ctx, id: WorkerId) -> Result<worker::Model, Error> {
    let row = worker::Entity::find_by_id(id.0).one(ctx.db.read()).await?.ok_or_else(|| Error::not_found("worker"))?;
    let now = ctx.now();
    if row.last_seen_at.is_some_and(|at| (now - at).whole_seconds() < SIGN_OF_LIFE) {
        return Ok(row);
    }
    ctx.db
        .write_concurrent("worker seen", async |tx| {
            let update = worker::Entity::update_many().col_expr(worker::Column::LastSeenAt, Expr::value(now));
            update.filter(worker::Column::Id.eq(id.0)).exec(tx).await?;
            Ok(())
        })
        .await?;
    Ok(worker::Model { last_seen_at: Some(now), ..row })
}

/// Returns the oldest proposed job that needs this site's answer and that the worker does not know yet.
async fn proposal(ctx: &Ctx, id: WorkerId, asking: &OfferRequest) -> Result<Option<WorkOffer>, Error> {
    let rows = participant::Entity::find()
        .filter(participant::Column::WorkerId.eq(id.0))
        .filter(participant::Column::SiteAnswered.eq(false))
        .filter(participant::Column::Visibility.ne(Visibility::Public.to_text()))
        .order_by_asc(participant::Column::JobId)
        .all(ctx.db.read())
        .await?;
    for part in rows {
        let row = load_job(ctx.db.read(), JobId(part.job_id)).await?;
        if row.state == JobState::Proposed && !asking.decided.contains(&row.digest) {
            return Ok(Some(WorkOffer::Proposal { manifest: manifest(row), dataset: part.dataset_id.into() }));
        }
    }
    Ok(None)
}

/// Returns the oldest work for this worker that it does not hold already. A restarted worker holds no lease, and gets a
/// new token at once.
async fn work(ctx: &Ctx, worker: &worker::Model, asking: &OfferRequest) -> Result<Option<WorkOffer>, Error> {
    let rows = participant::Entity::find()
        .filter(participant::Column::WorkerId.eq(worker.id))
        .filter(participant::Column::Purpose.eq(DatasetUse::Participate.to_text()))
        .filter(participant::Column::State.is_in(PartState::OPEN.map(ColumnEnum::to_text)))
        .order_by_asc(participant::Column::JobId)
        .all(ctx.db.read())
        .await?;
    for part in rows {
        let (job, dataset) = (JobId(part.job_id), DatasetId(part.dataset_id));
        let row = load_job(ctx.db.read(), job).await?;
        let now = *row.state;
        // An ended job's part that still holds a reservation: its worker crashed, or lost its lease, before it
        // accounted for its releases. It is offered until it has; otherwise the budget would stay reserved for ever.
        let owes = now.is_over() && part.state == PartState::Running && part.charge.is_some();
        if !(owes || matches!(now, JobState::Queued | JobState::Running)) || !worker.kinds.contains(&row.kind) {
            continue;
        }
        let lease = lease::Entity::find_by_id((job.0, dataset.0)).one(ctx.db.read()).await?;
        if lease.is_some_and(|lease| asking.leases.contains(&lease.token)) {
            continue;
        }
        let granted = ctx
            .db
            .write("grant lease", async |tx| Box::pin(leases::grant(ctx, tx, worker.id.into(), job, dataset)).await)
            .await;
        let (row, part, lease) = match granted {
            Ok(granted) => granted,
            // It changed after the query.
            Err(Error::Problem(_)) => continue,
            Err(error) => return Err(error),
        };
        ctx.changes().notify_job(job);
        let steward = if part.steward_approved { part.approval_by } else { None };
        let approval = match &steward {
            Some(_) => consent::signed_approval(ctx.db.read(), job, dataset).await?.map(Box::new),
            None => None,
        };
        return Ok(Some(WorkOffer::Work { manifest: manifest(row), dataset, lease, steward, approval }));
    }
    Ok(None)
}

fn manifest(row: jobs::Model) -> Signed {
    Signed { payload: row.manifest, signature: row.signature }
}
