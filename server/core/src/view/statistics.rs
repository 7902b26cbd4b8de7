//! Statistics of the tables, for monitoring: only numbers, no ids and no names. They are served at the address of
//! `/metrics`, which only the operator can reach.

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QuerySelect as _};
use time::Duration;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::metrics::ServerStatistics;
use crate::model::column::ColumnEnum as _;
use crate::model::{job, ledger_entry, log_head, round, worker};

/// A worker seen within this time counts as present: it asks for work every half minute.
const SEEN: Duration = Duration::minutes(2);

/// Counts the rows now.
///
/// # Errors
/// When the database does not answer.
pub async fn take(ctx: &Ctx) -> Result<ServerStatistics, Error> {
    let (db, now) = (ctx.db.read(), ctx.now());
    let jobs: Vec<(String, i64)> = job::Entity::find()
        .select_only()
        .column(job::Column::State)
        .column_as(job::Column::Id.count(), "count")
        .group_by(job::Column::State)
        .into_tuple()
        .all(db)
        .await?;
    let recent = worker::Entity::find().filter(worker::Column::LastSeenAt.gt(now - SEEN)).count(db).await?;
    let all = worker::Entity::find().count(db).await?;
    let running = job::Entity::find()
        .select_only()
        .column(job::Column::Id)
        .filter(job::Column::State.eq(undertone_api::job::JobState::Running.to_text()));
    let running: Vec<sea_orm::prelude::Uuid> = running.into_tuple().all(db).await?;
    let open = || {
        round::Entity::find()
            .filter(round::Column::ClosedAt.is_null())
            .filter(round::Column::JobId.is_in(running.iter().copied()))
    };
    let newest = log_head::Entity::find().select_only().column_as(log_head::Column::Size.max(), "size");
    let leaves: Option<Option<i64>> = newest.into_tuple().one(db).await?;
    Ok(ServerStatistics {
        jobs: jobs.into_iter().map(|(state, count)| (state, count as u64)).collect(),
        workers: BTreeMap::from([("seen".to_owned(), recent), ("silent".to_owned(), all.saturating_sub(recent))]),
        rounds_open: open().count(db).await?,
        rounds_late: open().filter(round::Column::Deadline.lt(now)).count(db).await?,
        ledger_entries: ledger_entry::Entity::find().count(db).await?,
        log_leaves: leaves.flatten().unwrap_or_default() as u64,
    })
}
