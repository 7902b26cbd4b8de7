//! Counts of what the tables hold, for whoever watches the server: numbers of everything, ids and names of nothing. They are
//! asked for at the address of `/metrics`, which is the operator's; no member can reach them.

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QuerySelect as _};
use time::Duration;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::entity::{job, ledger_entry, log_head, round, worker};

/// A worker that was heard of since then is there: it asks for work every half a minute.
const SEEN: Duration = Duration::minutes(2);

/// Counts of what the tables hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Jobs by state.
    pub jobs: BTreeMap<String, u64>,
    /// Workers that are `seen` and `silent`.
    pub workers: BTreeMap<String, u64>,
    /// Rounds that wait for submissions, of jobs that run.
    pub rounds_open: u64,
    /// Of these, those whose deadline has passed.
    pub rounds_late: u64,
    /// Entries of the ledger.
    pub ledger_entries: u64,
    /// Leaves of the log.
    pub log_leaves: u64,
}

/// Counts now.
///
/// # Errors
/// When the database does not answer.
pub async fn take(ctx: &Ctx) -> Result<Census, Error> {
    let (db, now) = (ctx.db.read(), ctx.now());
    let jobs: Vec<(String, i64)> = job::Entity::find()
        .select_only()
        .column(job::Column::State)
        .column_as(job::Column::Id.count(), "count")
        .group_by(job::Column::State)
        .into_tuple()
        .all(db)
        .await?;
    let seen = worker::Entity::find().filter(worker::Column::LastSeenAt.gt(now - SEEN)).count(db).await?;
    let all = worker::Entity::find().count(db).await?;
    let running = job::Entity::find().select_only().column(job::Column::Id).filter(job::Column::State.eq("running"));
    let running: Vec<sea_orm::prelude::Uuid> = running.into_tuple().all(db).await?;
    let open = || {
        round::Entity::find()
            .filter(round::Column::ClosedAt.is_null())
            .filter(round::Column::JobId.is_in(running.iter().copied()))
    };
    let newest = log_head::Entity::find().select_only().column_as(log_head::Column::Size.max(), "size");
    let leaves: Option<Option<i64>> = newest.into_tuple().one(db).await?;
    Ok(Census {
        jobs: jobs.into_iter().map(|(state, count)| (state, count as u64)).collect(),
        workers: BTreeMap::from([("seen".to_owned(), seen), ("silent".to_owned(), all.saturating_sub(seen))]),
        rounds_open: open().count(db).await?,
        rounds_late: open().filter(round::Column::Deadline.lt(now)).count(db).await?,
        ledger_entries: ledger_entry::Entity::find().count(db).await?,
        log_leaves: leaves.flatten().unwrap_or_default() as u64,
    })
}
