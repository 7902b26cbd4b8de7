//! Leases: the assignment of a participant's part of a job to a worker, proved by a fencing token. No lease is granted
//! before the job's reservation; a new token ends the one before it.

mod grant;
#[cfg(test)]
mod tests;

use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use time::Duration;
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::job::JobState;
use undertone_api::problem::Code;
use uuid::Uuid;

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::participant::PartState;
use crate::model::{departure, job, lease, participant};
use crate::rule::hold::describe_pause;
use crate::rule::job::load_job;

pub(crate) use grant::grant;

/// The validity of a lease without a call from its worker, in seconds.
pub const SECONDS: u32 = 60;

/// A lease in force.
#[derive(Debug, Clone)]
pub struct ActiveLease {
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// The worker.
    pub worker: WorkerId,
    row: lease::Model,
}

/// The response to a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRenewal {
    /// False when the job is over: the worker must stop.
    pub go_on: bool,
    /// The reason to stop, in words.
    pub reason: String,
}

/// Returns the lease of a token, if it is this worker's and no later one has replaced it.
///
/// # Errors
/// `lease_lost` otherwise.
pub async fn find_lease(
    connection: &impl ConnectionTrait,
    worker: WorkerId,
    token: &str,
) -> Result<ActiveLease, Error> {
    let row = lease::Entity::find().filter(lease::Column::Token.eq(token)).one(connection).await?;
    let row = row.filter(|row| row.worker_id == worker.0).ok_or_else(|| {
        Error::problem(Code::LeaseLost, "another lease of this participant has begun: ask for work again")
    })?;
    Ok(ActiveLease { job: row.job_id.into(), dataset: row.dataset_id.into(), worker, row })
}

/// Returns the same as [`find_lease`], and checks that the job is queued or running.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn at_work(
    connection: &impl ConnectionTrait,
    worker: WorkerId,
    token: &str,
) -> Result<(ActiveLease, job::Model), Error> {
    let lease = find_lease(connection, worker, token).await?;
    let row = load_job(connection, lease.job).await?;
    if let Some(reason) = departure_reason(connection, &lease).await? {
        return Err(Error::problem(Code::LeaseLost, reason));
    }
    match *row.state {
        JobState::Queued | JobState::Running => Ok((lease, row)),
        JobState::Paused => Err(paused(connection, &row).await?),
        over => Err(Error::problem(Code::LeaseLost, format!("the job is {}", over.label()))),
    }
}

/// Returns whether a participant ever had a lease.
///
/// # Errors
/// When the database fails.
pub(crate) async fn exists(connection: &impl ConnectionTrait, job: Uuid, dataset: Uuid) -> Result<bool, Error> {
    Ok(lease::Entity::find_by_id((job, dataset)).one(connection).await?.is_some())
}

/// Returns the reason for which a party has left the job of a lease; `None` if it has not.
async fn departure_reason(connection: &impl ConnectionTrait, held: &ActiveLease) -> Result<Option<String>, Error> {
    let key = (held.job.0, held.dataset.0);
    let row = departure::Entity::find_by_id(key).one(connection).await?;
    Ok(row.map(|row| format!("the dataset has left the job, by {}: {}", row.by, row.reason)))
}

/// Ends the lease of a participant: its token becomes invalid. Returns whether there was one.
///
/// # Errors
/// When the database fails.
pub async fn end(ctx: &Ctx, tx: &Tx, job: Uuid, dataset: Uuid) -> Result<bool, Error> {
    let Some(row) = lease::Entity::find_by_id((job, dataset)).one(tx).await? else { return Ok(false) };
    let row = lease::Model { token: ctx.random.secret(), expires_at: ctx.now(), ..row };
    row.into_active_model().reset_all().update(tx).await?;
    Ok(true)
}

/// Returns the error for a worker of a paused job: the lease is lost, but the job is not over. The worker then stops as
/// after a broken connection, returns nothing, and continues when the part is offered again.
async fn paused(connection: &impl ConnectionTrait, row: &job::Model) -> Result<Error, Error> {
    Ok(Error::problem(Code::LeaseLost, format!("the job is paused: {}", describe_pause(connection, row).await?)))
}

/// Renews a lease; returns whether the job continues. An expired lease without a successor is renewed as well.
///
/// # Errors
/// `lease_lost` when a later lease has begun, and while the job is paused.
pub async fn renew(ctx: &Ctx, worker: WorkerId, token: &str) -> Result<LeaseRenewal, Error> {
    let lease = find_lease(ctx.db.read(), worker, token).await?;
    let row = load_job(ctx.db.read(), lease.job).await?;
    let now = *row.state;
    // A party that has left accounts for its releases, also while others hold the job.
    if now == JobState::Paused && departure_reason(ctx.db.read(), &lease).await?.is_none() {
        return Err(paused(ctx.db.read(), &row).await?);
    }
    if now.is_over() {
        let reason = row.reason.unwrap_or_else(|| format!("the job is {}", now.label()));
        return Ok(LeaseRenewal { go_on: false, reason });
    }
    if let Some(reason) = departure_reason(ctx.db.read(), &lease).await? {
        return Ok(LeaseRenewal { go_on: false, reason });
    }
    extend(ctx, &lease, token).await?;
    Ok(LeaseRenewal { go_on: true, reason: String::new() })
}

/// Checks [`at_work`] again, for a known lease of an existing job: in one statement if nothing has changed.
///
/// # Errors
/// As [`at_work`].
pub(crate) async fn still_at_work(
    connection: &impl ConnectionTrait,
    held: &ActiveLease,
    token: &str,
) -> Result<(), Error> {
    let states = [JobState::Queued, JobState::Running].map(ColumnEnum::to_text);
    let under_way = Query::select()
        .column(job::Column::Id)
        .from(job::Entity)
        .and_where(job::Column::Id.eq(held.job.0))
        .and_where(job::Column::State.is_in(states))
        .take();
    let is_open = Query::select()
        .column(participant::Column::DatasetId)
        .from(participant::Entity)
        .and_where(participant::Column::JobId.eq(held.job.0))
        .and_where(participant::Column::State.ne(PartState::Leaving.to_text()))
        .take();
    let row = lease::Entity::find_by_id((held.job.0, held.dataset.0))
        .filter(lease::Column::Token.eq(token))
        .filter(lease::Column::WorkerId.eq(held.worker.0))
        .filter(lease::Column::JobId.in_subquery(under_way))
        .filter(lease::Column::DatasetId.in_subquery(is_open))
        .one(connection)
        .await?;
    if row.is_none() {
        // Returns the precise error.
        at_work(connection, held.worker, token).await?;
    }
    Ok(())
}

/// Extends a lease that has used a third of its time; every call of a running worker does this.
///
/// It does not use the single writer: it is one statement by the lease's key. It changes a time and never a token, and
/// only of the lease as it was read. So a later lease granted in the meantime stays unchanged, and this one is lost. An
/// operation that finds a lease expired while it is being extended would have found the same a moment earlier.
///
/// # Errors
/// `lease_lost` when a later lease has begun.
pub(crate) async fn extend(ctx: &Ctx, held: &ActiveLease, token: &str) -> Result<(), Error> {
    let (now, whole) = (ctx.now(), Duration::seconds(i64::from(SECONDS)));
    if held.row.expires_at - now > whole * 2 / 3 {
        return Ok(());
    }
    ctx.db
        .write_concurrent("renew lease", async |tx| {
            let extended = lease::Entity::update_many()
                .col_expr(lease::Column::ExpiresAt, Expr::value(now + whole))
                .filter(lease::Column::JobId.eq(held.job.0))
                .filter(lease::Column::DatasetId.eq(held.dataset.0))
                .filter(lease::Column::Token.eq(token))
                .filter(lease::Column::ExpiresAt.eq(held.row.expires_at))
                .exec(tx)
                .await?;
            if extended.rows_affected == 0 {
                // Another call has extended it in the meantime, or it is lost.
                self::find_lease(tx, held.worker, token).await?;
            }
            Ok(())
        })
        .await
}
