//! The wait for a round's close, and its mean.

use std::time::Duration;

use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use sea_orm::EntityTrait as _;
use undertone_api::id::WorkerId;
use undertone_api::problem::Violation;

use super::{close, contributes, find, object_error};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::planned_series::PlannedSeries;
use crate::model::{job, participant};
use crate::service::lease::{self, ActiveLease};

/// The longest wait that a worker may request, seconds.
pub const LONGEST_WAIT: u32 = 60;
/// The interval of queries for changes by other replicas or by time.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The mean of a closed round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundMean {
    /// The number of contributors.
    pub contributors: u32,
    /// The number of elements.
    pub length: u64,
    /// SHA-256 of its wire format, hex.
    pub digest: String,
    /// The size of its wire format, bytes.
    pub size: u64,
    /// Its path in the object store.
    pub object: Path,
}

/// Waits up to `wait_seconds` for a round to close; `None` when it has not. It also closes a round past its deadline:
/// without a waiting worker, no close is needed. Contributors and the lead may read it.
///
/// # Errors
/// `validation_failed` when the dataset may read no such round, `lease_lost` when the lease or the job has ended.
pub async fn average(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    series: &str,
    number: u32,
    wait_seconds: u32,
) -> Result<Option<RoundMean>, Error> {
    let wait = Duration::from_secs(u64::from(wait_seconds.min(LONGEST_WAIT)));
    let end = tokio::time::Instant::now() + wait;
    let mut waiter = ctx.changes().subscribe_to_job(lease::find_lease(ctx.db.read(), worker, token).await?.job);
    loop {
        let (held, row) = lease::at_work(ctx.db.read(), worker, token).await?;
        lease::extend(ctx, &held, token).await?;
        let planned = match contributes(&row, &held, series) {
            Some(planned) => Some(planned),
            None => find_led(ctx, &row, &held, series).await?,
        };
        let planned = planned.filter(|planned| (1..=planned.series.rounds).contains(&number)).ok_or_else(|| {
            Error::validation(vec![Violation::new("round", "this dataset takes part in no such round")])
        })?;
        let name = &planned.series.name;
        let mut round = find(ctx.db.read(), &row, name, number).await?;
        if round.as_ref().is_some_and(|open| open.closed_at.is_none())
            && close::if_due(ctx, held.job, name, number).await?
        {
            round = find(ctx.db.read(), &row, name, number).await?;
        }
        if let Some(closed) = round
            && let (Some(digest), Some(object), Some(length)) = (closed.digest, closed.object, closed.length)
        {
            let object = Path::from(object);
            let size = ctx.store.head(&object).await.map_err(|error| object_error(error.into()))?.size;
            let (contributors, length) = (closed.contributors as u32, length as u64);
            return Ok(Some(RoundMean { contributors, length, digest, size, object }));
        }
        let remaining = end.saturating_duration_since(tokio::time::Instant::now());
        if remaining.is_zero() {
            return Ok(None);
        }
        tokio::select! {
            () = waiter.wait(remaining.min(LOOK_AGAIN)) => {}
            () = ctx.shutdown.cancelled() => return Ok(None),
        }
    }
}

/// Returns a series of the job if the holder of the lease leads it: the lead reports what follows from all means.
async fn find_led(
    ctx: &Ctx,
    row: &job::Model,
    held: &ActiveLease,
    series: &str,
) -> Result<Option<PlannedSeries>, Error> {
    let part = participant::Entity::find_by_id((held.job.0, held.dataset.0)).one(ctx.db.read()).await?;
    let leads = part.is_some_and(|part| part.position == 0);
    Ok(row.series.iter().find(|planned| leads && planned.series.name == series).cloned())
}
