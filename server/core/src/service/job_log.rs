//! The log of a job: reports of its sites about their parts, and actions of the server. It contains only numbers and
//! fixed words, see `undertone_api::job::log`.
//!
//! It is no evidence and decides nothing; the ledger and the receipts do. So it is bounded, and the oldest lines of a
//! part are dropped first. Repeated events of a site are ignored, and events about a round that does not exist are
//! rejected. To note one more action of the server: a variant of `LogEvent`, and `note` in its transaction.
//!
//! Site events are the most frequent writes, so they do not use the single writer
//! ([`Db::write_concurrent`](crate::db::Db::write_concurrent)). Both `append` and `note` hold the log's lock from before they read the
//! newest numbers until the end of the transaction. So numbers have no gaps, lines appear in their order, and no event
//! is stored twice.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, QueryTrait as _,
};
use time::{Duration, OffsetDateTime};
use undertone_api::id::{JobId, WorkerId};
use undertone_api::job::Spec;
use undertone_api::job::log::{LogEvent, LogLevel, LogLine, LogQuery, MOST_EVENTS, MOST_LINES, SiteEvent, list_series};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;
use uuid::Uuid;

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::db::{Tx, lock_job_log};
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, JsonColumn, to_json};
use crate::model::{job, job_log, participant};
use crate::rule::job::{load_job, load_participants, load_readable_job};
use crate::service::audit_log::{self, AuditAction};
use crate::service::lease;

/// An event that a site reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteLogLine {
    /// The site's own number, strictly increasing.
    pub sequence: u64,
    /// The time of the event by the site's clock, seconds.
    pub at_unix: i64,
    /// The event.
    pub event: SiteEvent,
}

/// The last event that a site reported about its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSiteLine {
    /// The event.
    pub event: SiteEvent,
    /// The time at the server.
    pub at: OffsetDateTime,
    /// The lead of the site's clock over the server's, seconds.
    pub(crate) skew_seconds: i64,
}

/// Stores a site's events about its part, oldest first; `sent_at_unix` is its clock now. A repetition changes nothing.
///
/// # Errors
/// `lease_lost` when a later lease has begun, `validation_failed` when there are more events than a message may hold,
/// or one is about a round that the job does not have.
pub async fn append(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    sent_at_unix: i64,
    said: &[SiteLogLine],
) -> Result<(), Error> {
    // The lease of an ended job is accepted too: the events around its end are the most useful.
    let lease = lease::find_lease(ctx.db.read(), worker, token).await?;
    if !(1..=MOST_EVENTS).contains(&said.len()) {
        let most = format!("send 1 to {MOST_EVENTS} events, not {}", said.len());
        return Err(Error::validation(vec![Violation::new("events", most)]));
    }
    let row = load_job(ctx.db.read(), lease.job).await?;
    let violations = violations(&row.spec, said);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    ctx.db
        .write_concurrent("append to job log", async |tx| {
            lock_job_log(tx, row.id).await?;
            let part = Some(lease.dataset.0);
            let before = last_row(tx, row.id, part).await?;
            let last_sequence = before.and_then(|last| last.sequence).unwrap_or(-1);
            let mut number = newest_in(tx, row.id).await? as i64;
            let mut lines = Vec::new();
            for one in said {
                let Ok(sequence) = i64::try_from(one.sequence) else { continue };
                if sequence <= last_sequence {
                    continue;
                }
                number += 1;
                let event = LogEvent::Site { said: one.event };
                let line = job_log::Model {
                    job_id: row.id,
                    number,
                    dataset_id: part,
                    sequence: Some(sequence),
                    level: event.level().into(),
                    event: JsonColumn::new(event)?,
                    skew_seconds: Some(sent_at_unix.saturating_sub(ctx.now().unix_timestamp())),
                    at: event_time(ctx, row.created_at, sent_at_unix, one.at_unix),
                };
                lines.push(line.into_active_model());
            }
            if !lines.is_empty() {
                job_log::Entity::insert_many(lines).exec_without_returning(tx).await?;
                trim(tx, row.id, part, number).await?;
            }
            Ok(())
        })
        .await?;
    ctx.changes().notify_job_display(lease.job);
    Ok(())
}

/// Notes an action of the server, in the transaction of the action.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn note(ctx: &Ctx, tx: &Tx, job: Uuid, dataset: Option<Uuid>, event: LogEvent) -> Result<(), Error> {
    lock_job_log(tx, job).await?;
    let number = newest_in(tx, job).await? as i64 + 1;
    let line = job_log::Model {
        job_id: job,
        number,
        dataset_id: dataset,
        sequence: None,
        level: event.level().into(),
        event: JsonColumn::new(event)?,
        skew_seconds: None,
        at: ctx.now(),
    };
    job_log::Entity::insert(line.into_active_model()).exec_without_returning(tx).await?;
    trim(tx, job, dataset, number).await
}

/// Returns a job's log, newest first.
///
/// # Errors
/// 404 when there is no job that the caller may know, `validation_failed` for an invalid cursor.
pub async fn list(ctx: &Ctx, actor: &Actor, id: JobId, query: &LogQuery) -> Result<Page<LogLine>, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    let mut find = job_log::Entity::find().filter(job_log::Column::JobId.eq(row.id));
    if let Some(dataset) = query.dataset {
        find = find.filter(job_log::Column::DatasetId.eq(dataset.0));
    }
    if let Some(least) = query.level {
        let levels = [LogLevel::Info, LogLevel::Warning, LogLevel::Error].into_iter().filter(|level| *level >= least);
        find = find.filter(job_log::Column::Level.is_in(levels.map(LogLevel::to_text)));
    }
    if let Some(cursor) = &query.cursor {
        let wrong = || Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]);
        find = find.filter(job_log::Column::Number.lt(cursor.parse::<i64>().map_err(|_| wrong())?));
    }
    let size = u64::from(PageQuery { cursor: None, limit: query.limit }.size());
    let mut rows = find.order_by_desc(job_log::Column::Number).limit(size + 1).all(ctx.db.read()).await?;
    let more = rows.len() as u64 > size;
    rows.truncate(size as usize);
    let next = rows.last().filter(|_| more).map(|row| row.number.to_string());
    Ok(Page { items: lines(ctx, &row, rows).await?, next })
}

/// Returns a job's whole log as JSON Lines, oldest first.
///
/// # Errors
/// 404 when there is no job that the caller may know.
pub async fn export(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<String, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    let rows = job_log::Entity::find()
        .filter(job_log::Column::JobId.eq(row.id))
        .order_by_asc(job_log::Column::Number)
        .all(ctx.db.read())
        .await?;
    let mut text = String::new();
    for line in lines(ctx, &row, rows).await? {
        text.push_str(&to_json(&line)?);
        text.push('\n');
    }
    audit_log::note_taken(ctx, actor, AuditAction::LogsTaken, &row).await?;
    Ok(text)
}

/// Returns the number of the newest line; 0 while there is none.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn newest(ctx: &Ctx, id: JobId) -> Result<u64, Error> {
    newest_in(ctx.db.read(), id.0).await
}

/// Returns the last event that each site reported about its part, by dataset.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn last(connection: &impl ConnectionTrait, job: Uuid) -> Result<HashMap<Uuid, LastSiteLine>, Error> {
    let newest = sea_orm::sea_query::Query::select()
        .expr(job_log::Column::Number.max())
        .from(job_log::Entity)
        .and_where(job_log::Column::JobId.eq(job))
        .and_where(job_log::Column::Sequence.is_not_null())
        .group_by_col(job_log::Column::DatasetId)
        .take();
    let rows = job_log::Entity::find()
        .filter(job_log::Column::JobId.eq(job))
        .filter(job_log::Column::Number.in_subquery(newest))
        .all(connection)
        .await?;
    let mut last = HashMap::new();
    for row in rows {
        if let (Some(dataset), LogEvent::Site { said }) = (row.dataset_id, row.event.into_value()) {
            last.insert(dataset, LastSiteLine { event: said, at: row.at, skew_seconds: row.skew_seconds.unwrap_or(0) });
        }
    }
    Ok(last)
}

/// Returns the newest line of the site itself.
async fn last_row(
    connection: &impl ConnectionTrait,
    job: Uuid,
    dataset: Option<Uuid>,
) -> Result<Option<job_log::Model>, Error> {
    Ok(part_rows(job, dataset)
        .filter(job_log::Column::Sequence.is_not_null())
        .order_by_desc(job_log::Column::Number)
        .one(connection)
        .await?)
}

fn part_rows(job: Uuid, dataset: Option<Uuid>) -> sea_orm::Select<job_log::Entity> {
    let all = job_log::Entity::find().filter(job_log::Column::JobId.eq(job));
    match dataset {
        Some(dataset) => all.filter(job_log::Column::DatasetId.eq(dataset)),
        None => all.filter(job_log::Column::DatasetId.is_null()),
    }
}

async fn newest_in(connection: &impl ConnectionTrait, job: Uuid) -> Result<u64, Error> {
    let last = job_log::Entity::find()
        .filter(job_log::Column::JobId.eq(job))
        .order_by_desc(job_log::Column::Number)
        .one(connection)
        .await?;
    Ok(last.map_or(0, |row| row.number as u64))
}

/// Drops the oldest lines of a part above the limit; `newest` is the number of the job's newest line.
async fn trim(tx: &Tx, job: Uuid, dataset: Option<Uuid>, newest: i64) -> Result<(), Error> {
    // Lines are numbered from 1: no part of the job can have more.
    if newest <= MOST_LINES as i64 {
        return Ok(());
    }
    let old = part_rows(job, dataset)
        .select_only()
        .column(job_log::Column::Number)
        .order_by_desc(job_log::Column::Number)
        .offset(MOST_LINES)
        // No message contains as many.
        .limit(MOST_LINES)
        .into_query();
    job_log::Entity::delete_many()
        .filter(job_log::Column::JobId.eq(job))
        .filter(job_log::Column::Number.in_subquery(old))
        .exec(tx)
        .await?;
    Ok(())
}

/// Returns the violations of events about rounds that the job does not have.
fn violations(spec: &Spec, said: &[SiteLogLine]) -> Vec<Violation> {
    let rounds = spec.series(&[]).into_iter().map(|series| series.rounds);
    let rounds: Vec<u32> =
        rounds.chain(spec.questions().map(|_| 1)).chain(spec.external_release().map(|_| 1)).collect();
    let wrong = |one: &SiteLogLine| {
        let event = LogEvent::Site { said: one.event };
        event
            .round()
            .is_some_and(|(series, round)| rounds.get(series as usize).is_none_or(|last| !(1..=*last).contains(&round)))
    };
    (0..)
        .zip(said)
        .filter(|(_, one)| wrong(one))
        .map(|(index, _): (usize, _)| {
            Violation::new(format!("events.{index}"), "the job has no such round: count series from 0, rounds from 1")
        })
        .collect()
}

/// Returns the time of an event by the server's clock: the age is the site's, limited to the time between the job's
/// creation and now.
fn event_time(ctx: &Ctx, job_from: OffsetDateTime, sent_at_unix: i64, at_unix: i64) -> OffsetDateTime {
    let now = ctx.now();
    let ago = Duration::seconds(sent_at_unix.saturating_sub(at_unix).clamp(0, 366 * 86_400));
    (now - ago).max(job_from).min(now)
}

async fn lines(ctx: &Ctx, row: &job::Model, rows: Vec<job_log::Model>) -> Result<Vec<LogLine>, Error> {
    let names = list_series(&row.spec);
    let parts: HashMap<Uuid, participant::Model> = load_participants(ctx.db.read(), row.id.into())
        .await?
        .into_iter()
        .map(|part| (part.dataset_id, part))
        .collect();
    rows.into_iter()
        .map(|line| {
            let event = line.event.into_value();
            let series = event.round().and_then(|(series, _)| names.get(series as usize).cloned());
            let part = line.dataset_id.and_then(|dataset| parts.get(&dataset));
            Ok(LogLine {
                number: line.number as u64,
                at: line.at,
                dataset: line.dataset_id.map(Into::into),
                dataset_name: part.map(|part| part.dataset_name.clone()),
                organization_name: part.map(|part| part.organization_name.clone()),
                level: *line.level,
                text: event.sentence(series.as_deref().unwrap_or_default()),
                event,
                series_name: series,
            })
        })
        .collect()
}
