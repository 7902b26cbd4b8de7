//! The close of a round: the mean is computed outside any transaction, and counts only if nothing has changed in the
//! meantime.

use object_store::path::Path;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::log::LogEvent;
use undertone_proto::vector::VectorForm;

use super::masked::{self, MaskedPart};
use super::{find, object_error, open};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::exchange::average::{self, MeanPart};
use crate::exchange::object;
use crate::model::column::ColumnEnum;
use crate::model::participant::PartState;
use crate::model::planned_series::PlannedSeries;
use crate::model::{job, participant, round, submission};
use crate::rule::job::load_job;
use crate::service::audit_log::AuditAuthor;
use crate::service::job::state;
use crate::service::job_log;

/// One mean at a time in a process: this bounds the bytes read from the store at once.
pub(super) static AT_WORK: Mutex<()> = Mutex::const_new(());
/// One close at a time per job and process: a second caller finds the round closed. Two jobs may share a lock; then one
/// waits for the other.
static CLOSING: [Mutex<()>; 64] = [const { Mutex::const_new(()) }; 64];

/// The input of a round's close.
#[derive(Debug, Clone, PartialEq)]
struct DueRound {
    open: round::Model,
    /// The counted submissions, masked or not, with their weights.
    submissions: Vec<(submission::Model, f64)>,
    /// The vectors without masks.
    parts: Vec<MeanPart>,
    /// The survivors' masked vectors; empty in a series without masks.
    masked: Vec<MaskedPart>,
    length: u64,
}

/// Closes the round if it is due: all contributors have submitted, or the deadline has passed and the quorum is met.
/// Returns whether it was.
pub(super) async fn if_due(ctx: &Ctx, id: JobId, series: &str, number: u32) -> Result<bool, Error> {
    // Nearly all calls come while a submission is missing. They must not wait for a close in progress, in particular
    // not for another job's. The caller with the last vector sees that the round was due.
    if look(ctx, id, series, number).await?.is_none() {
        return Ok(false);
    }
    // The low bits of an id are random.
    let _turn = CLOSING[(id.0.as_u128() % CLOSING.len() as u128) as usize].lock().await;
    // Ends when the round is closed or not due; repeats only when a submission arrived in between.
    loop {
        let Some((planned, due)) = look(ctx, id, series, number).await? else { return Ok(true) };
        // The name follows from the input, so two replicas with the same work write the same bytes to the same path.
        let object = Path::from(format!("averages/{id}/{series}/{number}-{}", name(&due)));
        let form = VectorForm::new(planned.series.precision, due.length).map_err(|error| object_error(error.into()))?;
        let at_work = AT_WORK.lock().await;
        let mean = Box::pin(write_mean(ctx, id, &planned, number, &due, form, &object)).await;
        // Not held while waiting for the writer's turn.
        drop(at_work);
        if mean.is_err() && look(ctx, id, series, number).await?.is_none() {
            // Another replica has closed it in the meantime, and removed its input.
            return Ok(true);
        }
        let digest = mean?;
        let closed = ctx
            .db
            .write("close round", async |tx| {
                let row = load_job(tx, id).await?;
                if self::due(ctx, tx, &row, &planned, number).await?.as_ref() != Some(&due) {
                    return Ok(false);
                }
                Box::pin(close(ctx, tx, row, &planned, number, &due, &object, &digest)).await?;
                Ok(true)
            })
            .await?;
        if closed {
            tracing::info!(job.id = %id, series, round = number, contributors = due.submissions.len(), "a round closed");
            // First notify the waiting workers, then clean up.
            ctx.changes().notify_job(id);
            for (submission, _) in &due.submissions {
                object::remove(&ctx.store, &Path::from(submission.object.clone())).await.map_err(object_error)?;
            }
            if !due.masked.is_empty() {
                object::remove(&ctx.store, &sum_path(id, series, number, &due)).await.map_err(object_error)?;
            }
            let unfinished = Path::from(format!("uploads/{id}/{series}/{number}"));
            object::remove_all(&ctx.store, &unfinished).await.map_err(object_error)?;
            return Ok(true);
        }
    }
}

/// Returns the path of the opened sum of a masked round, which goes when the round closes.
fn sum_path(id: JobId, series: &str, number: u32, due: &DueRound) -> Path {
    Path::from(format!("submissions/{id}/{series}/{number}-sum-{}", name(due)))
}

/// Writes the mean of a round; returns its digest. The mean of a group's opened sum is one of its parts.
async fn write_mean(
    ctx: &Ctx,
    id: JobId,
    planned: &PlannedSeries,
    number: u32,
    due: &DueRound,
    form: VectorForm,
    object: &Path,
) -> Result<String, Error> {
    let mut parts = due.parts.clone();
    if !due.masked.is_empty() {
        let row = load_job(ctx.db.read(), id).await?;
        let to = sum_path(id, &planned.series.name, number, due);
        let masked::OpenedSum { path, weight } = masked::open_sum(ctx, &row, planned, number, &due.masked, to).await?;
        parts.push(MeanPart { path, weight });
    }
    average::mean(&ctx.store, &parts, form, object).await.map_err(object_error)
}

/// Returns the series, and the present input of the round's close, outside any transaction; `None` when it is not due.
async fn look(ctx: &Ctx, id: JobId, series: &str, number: u32) -> Result<Option<(PlannedSeries, DueRound)>, Error> {
    let row = load_job(ctx.db.read(), id).await?;
    // Rounds of ended or paused jobs do not close.
    if !row.state.is_under_way() {
        return Ok(None);
    }
    let planned = row.series.iter().find(|planned| planned.series.name == series).cloned();
    let Some(planned) = planned else { return Ok(None) };
    let due = due(ctx, ctx.db.read(), &row, &planned, number).await?;
    Ok(due.map(|due| (planned, due)))
}

/// Returns the present input of the round's close; `None` when it is closed, not open, or not due.
async fn due(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    row: &job::Model,
    planned: &PlannedSeries,
    number: u32,
) -> Result<Option<DueRound>, Error> {
    let series = &planned.series;
    if !row.state.is_under_way() {
        return Ok(None);
    }
    let Some(open) = find(connection, row, &series.name, number).await?.filter(|open| open.closed_at.is_none()) else {
        return Ok(None);
    };
    let rows = submission::Entity::find()
        .filter(submission::Column::JobId.eq(row.id))
        .filter(submission::Column::Series.eq(&series.name))
        .filter(submission::Column::Round.eq(number as i32))
        .all(connection)
        .await?;
    let absent: Vec<_> = participant::Entity::find()
        .filter(participant::Column::JobId.eq(row.id))
        .filter(participant::Column::State.is_in(PartState::OUT.map(ColumnEnum::to_text)))
        .all(connection)
        .await?;
    let group = series.masked.as_ref();
    let is_masked = |dataset: DatasetId| group.is_some_and(|group| group.index(dataset).is_some());
    let survivors = match group {
        None => None,
        Some(_) => match masked::survivors(connection, row, planned, number).await? {
            // Not before the sum can be opened.
            None => return Ok(None),
            survivors => survivors,
        },
    };
    let is_incomplete = series.contributors(number).filter(|dataset| !is_masked(*dataset)).any(|dataset| {
        !rows.iter().any(|submission| submission.dataset_id == dataset.0)
            && !absent.iter().any(|part| part.dataset_id == dataset.0)
    });
    let is_counted = |dataset: DatasetId| {
        let index = group.and_then(|group| group.index(dataset));
        index.is_none_or(|index| survivors.is_some_and(|survivors| survivors.contains(index)))
    };
    let rows: Vec<_> = rows.into_iter().filter(|row| is_counted(row.dataset_id.into())).collect();
    let quorum = rows.len() >= series.quorum as usize;
    if rows.is_empty() || !quorum || (is_incomplete && ctx.now() < open.deadline) {
        return Ok(None);
    }
    // In the order of the spec, not of arrival: equal submissions give equal bits.
    let mut submissions = Vec::new();
    let mut parts = Vec::new();
    let mut masked = Vec::new();
    for (dataset, weight) in &series.weights {
        let Some(submission) = rows.iter().find(|submission| submission.dataset_id == dataset.0) else { continue };
        let path = Path::from(submission.object.clone());
        if is_masked(*dataset) {
            masked.push(MaskedPart { dataset: *dataset, path, weight: *weight });
        } else {
            parts.push(MeanPart { path, weight: *weight });
        }
        submissions.push((submission.clone(), *weight));
    }
    let length = open.length.unwrap_or(0).max(0) as u64;
    Ok(Some(DueRound { open, submissions, parts, masked, length }))
}

#[expect(clippy::too_many_arguments, reason = "all that a closed round is made of, in its one place")]
async fn close(
    ctx: &Ctx,
    tx: &Tx,
    row: job::Model,
    planned: &PlannedSeries,
    number: u32,
    due: &DueRound,
    object: &Path,
    digest: &str,
) -> Result<(), Error> {
    let series = &planned.series;
    submission::Entity::update_many()
        .col_expr(submission::Column::Counted, Expr::value(true))
        .filter(submission::Column::JobId.eq(row.id))
        .filter(submission::Column::Series.eq(&series.name))
        .filter(submission::Column::Round.eq(number as i32))
        .filter(
            submission::Column::DatasetId.is_in(due.submissions.iter().map(|(submission, _)| submission.dataset_id)),
        )
        .exec(tx)
        .await?;
    // As read in this transaction.
    let closed = round::Model {
        closed_at: Some(ctx.now()),
        contributors: due.submissions.len() as i32,
        digest: Some(digest.to_owned()),
        object: Some(object.to_string()),
        ..due.open.clone()
    };
    closed.into_active_model().reset_all().update(tx).await?;
    if series.masked.is_some() {
        masked::remove(tx, row.id, Some((&series.name, number))).await?;
    }
    if number < series.rounds {
        open(ctx, tx, &row, planned, number + 1).await?;
    }
    let all = &*row.series;
    let place = all.iter().position(|other| other.series.name == series.name).unwrap_or_default();
    let event = LogEvent::Closed {
        series: place as u32,
        round: number,
        contributors: due.submissions.len() as u32,
        of: series.contributors(number).count() as u32,
    };
    job_log::note(ctx, tx, row.id, None, event).await?;
    let row = job::Model { rounds_done: row.rounds_done + 1, ..row };
    job::Entity::update_many()
        .col_expr(job::Column::RoundsDone, Expr::value(row.rounds_done))
        .filter(job::Column::Id.eq(row.id))
        .exec(tx)
        .await?;
    // The server is the author of a round's close, not the caller that triggered it.
    state::finish_if_done(ctx, tx, AuditAuthor::System, row).await?;
    Ok(())
}

fn name(due: &DueRound) -> String {
    let mut hasher = Sha256::new();
    for (submission, weight) in &due.submissions {
        hasher.update(submission.dataset_id.as_bytes());
        hasher.update(submission.digest.as_bytes());
        hasher.update(weight.to_le_bytes());
    }
    hex::encode(&hasher.finalize()[..16])
}
