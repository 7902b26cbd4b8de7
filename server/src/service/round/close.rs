//! Closing a round: the mean is made outside any transaction, and counts only if nothing has changed meanwhile.

use object_store::path::Path;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use undertone_api::id::JobId;
use undertone_api::job::log::LogEvent;
use undertone_proto::vector::Form;

use super::{find, object_error, open};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::exchange::average::{self, Part};
use crate::exchange::object;
use crate::service::audit_log::By;
use crate::service::code::from_json;
use crate::service::entity::{job, participant, round, submission};
use crate::service::job::series::Planned;
use crate::service::job::state;
use crate::service::job_log;

/// One mean at a time in a process: it bounds what is read from the store at once.
pub(super) static AT_WORK: Mutex<()> = Mutex::const_new(());
/// One close at a time of a job, in a process: whoever comes second to the same round finds it closed. Two jobs may share a place; then
/// one waits for the other.
static CLOSING: [Mutex<()>; 64] = [const { Mutex::const_new(()) }; 64];

/// What a round would be closed with.
#[derive(Debug, Clone, PartialEq)]
struct Due {
    open: round::Model,
    submissions: Vec<submission::Model>,
    parts: Vec<Part>,
    length: u64,
}

/// Closes the round if it is due: all contributors have submitted, or the deadline has passed and the quorum is met. Gives whether it
/// was.
pub(super) async fn if_due(ctx: &Ctx, id: JobId, series: &str, number: u32) -> Result<bool, Error> {
    // Nearly all come while somebody is awaited. They do not wait for a round that is being closed, and least of all for another
    // job's; whoever sent the last vector sees that it was.
    if look(ctx, id, series, number).await?.is_none() {
        return Ok(false);
    }
    // The low bits of an id are random.
    let _turn = CLOSING[(id.0.as_u128() % CLOSING.len() as u128) as usize].lock().await;
    // Ends when the round is closed or not due; goes round again only when a submission came in between.
    loop {
        let Some((planned, due)) = look(ctx, id, series, number).await? else { return Ok(true) };
        // The name follows from what goes in, so two replicas at the same work write the same bytes to the same place.
        let object = Path::from(format!("averages/{id}/{series}/{number}-{}", name(&due)));
        let form = Form::new(planned.series.precision, due.length).map_err(|error| object_error(error.into()))?;
        let at_work = AT_WORK.lock().await;
        let mean = average::mean(&ctx.store, &due.parts, form, &object).await;
        // Not while it waits for its turn to write.
        drop(at_work);
        if mean.is_err() && look(ctx, id, series, number).await?.is_none() {
            // Another replica has closed it meanwhile, and removed what it was made of.
            return Ok(true);
        }
        let digest = mean.map_err(object_error)?;
        let closed = ctx
            .db
            .write("close round", async |tx| {
                let row = state::row(tx, id).await?;
                if self::due(ctx, tx, &row, &planned, number).await?.as_ref() != Some(&due) {
                    return Ok(false);
                }
                close(ctx, tx, row, &planned, number, &due, &object, &digest).await?;
                Ok(true)
            })
            .await?;
        if closed {
            tracing::info!(job.id = %id, series, round = number, contributors = due.parts.len(), "a round closed");
            // First those who wait, then the tidying.
            ctx.wake().ring_in(id);
            for submission in &due.submissions {
                object::remove(&ctx.store, &Path::from(submission.object.clone())).await.map_err(object_error)?;
            }
            let unfinished = Path::from(format!("uploads/{id}/{series}/{number}"));
            object::remove_all(&ctx.store, &unfinished).await.map_err(object_error)?;
            return Ok(true);
        }
    }
}

/// The series, and what the round is to be closed with as things are now, outside any transaction; nothing when it is not due.
async fn look(ctx: &Ctx, id: JobId, series: &str, number: u32) -> Result<Option<(Planned, Due)>, Error> {
    let row = state::row(ctx.db.read(), id).await?;
    // Of a job that is over or paused no round closes.
    if !state::of(&row)?.is_under_way() {
        return Ok(None);
    }
    let planned: Vec<Planned> = from_json(&row.series)?;
    let Some(planned) = planned.into_iter().find(|planned| planned.series.name == series) else { return Ok(None) };
    let due = due(ctx, ctx.db.read(), &row, &planned, number).await?;
    Ok(due.map(|due| (planned, due)))
}

/// What the round is to be closed with now; nothing when it is closed, not open, or not due.
async fn due(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    row: &job::Model,
    planned: &Planned,
    number: u32,
) -> Result<Option<Due>, Error> {
    let series = &planned.series;
    if !state::of(row)?.is_under_way() {
        return Ok(None);
    }
    let Some(open) = find(connection, row, &series.name, number).await?.filter(|open| open.closed_at.is_none()) else {
        return Ok(None);
    };
    let found = submission::Entity::find()
        .filter(submission::Column::JobId.eq(row.id))
        .filter(submission::Column::Series.eq(&series.name))
        .filter(submission::Column::Round.eq(number as i32))
        .all(connection)
        .await?;
    let gone: Vec<_> = participant::Entity::find()
        .filter(participant::Column::JobId.eq(row.id))
        .filter(participant::Column::State.is_in(["failed", "withdrawn"]))
        .all(connection)
        .await?;
    let awaited = series.weights.iter().any(|(dataset, _)| {
        !found.iter().any(|submission| submission.dataset_id == dataset.0)
            && !gone.iter().any(|part| part.dataset_id == dataset.0)
    });
    let quorum = found.len() >= series.quorum as usize;
    if found.is_empty() || !quorum || (awaited && ctx.now() < open.deadline) {
        return Ok(None);
    }
    // In the order of the spec, whatever the order of arrival: equal submissions give equal bits.
    let (mut submissions, mut parts) = (Vec::new(), Vec::new());
    for (dataset, weight) in &series.weights {
        if let Some(submission) = found.iter().find(|submission| submission.dataset_id == dataset.0) {
            parts.push(Part { path: Path::from(submission.object.clone()), weight: *weight });
            submissions.push(submission.clone());
        }
    }
    let length = open.length.unwrap_or(0).max(0) as u64;
    Ok(Some(Due { open, submissions, parts, length }))
}

#[expect(clippy::too_many_arguments, reason = "all that a closed round is made of, in its one place")]
async fn close(
    ctx: &Ctx,
    tx: &Tx,
    row: job::Model,
    planned: &Planned,
    number: u32,
    due: &Due,
    object: &Path,
    digest: &str,
) -> Result<(), Error> {
    let series = &planned.series;
    submission::Entity::update_many()
        .col_expr(submission::Column::Counted, Expr::value(true))
        .filter(submission::Column::JobId.eq(row.id))
        .filter(submission::Column::Series.eq(&series.name))
        .filter(submission::Column::Round.eq(number as i32))
        .filter(submission::Column::DatasetId.is_in(due.submissions.iter().map(|submission| submission.dataset_id)))
        .exec(tx)
        .await?;
    // As it was read in this transaction.
    let closed = round::Model {
        closed_at: Some(ctx.now()),
        contributors: due.parts.len() as i32,
        digest: Some(digest.to_owned()),
        object: Some(object.to_string()),
        ..due.open.clone()
    };
    closed.into_active_model().reset_all().update(tx).await?;
    if number < series.rounds {
        open(ctx, tx, &row, planned, number + 1).await?;
    }
    let all: Vec<Planned> = from_json(&row.series)?;
    let place = all.iter().position(|other| other.series.name == series.name).unwrap_or_default();
    let event = LogEvent::Closed {
        series: place as u32,
        round: number,
        contributors: due.parts.len() as u32,
        of: series.weights.len() as u32,
    };
    job_log::note(ctx, tx, row.id, None, event).await?;
    let row = job::Model { rounds_done: row.rounds_done + 1, ..row };
    job::Entity::update_many()
        .col_expr(job::Column::RoundsDone, Expr::value(row.rounds_done))
        .filter(job::Column::Id.eq(row.id))
        .exec(tx)
        .await?;
    // Whoever sent the last vector, or asked first after the deadline: it is the server that closes a round.
    state::finish_if_done(ctx, tx, By::System, row).await?;
    Ok(())
}

fn name(due: &Due) -> String {
    let mut hasher = Sha256::new();
    for (submission, part) in due.submissions.iter().zip(&due.parts) {
        hasher.update(submission.dataset_id.as_bytes());
        hasher.update(submission.digest.as_bytes());
        hasher.update(part.weight.to_le_bytes());
    }
    hex::encode(&hasher.finalize()[..16])
}
