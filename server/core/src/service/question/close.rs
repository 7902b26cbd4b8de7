//! The end of a round of questions, and its answers. A round closes when each of its questions has the requested number
//! of answers, or at its deadline. Afterwards it does not change.

use std::collections::HashMap;
use std::time::Duration as Wait;

use sea_orm::sea_query::Query;
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _, QuerySelect as _, Select,
};
use undertone_api::id::{JobId, WorkerId};
use undertone_api::problem::Violation;
use undertone_proto::question::{AnswerLine, write_answers};
use uuid::Uuid;

use super::pools::{LONGEST_WAIT, LOOK_AGAIN};
use super::{POOLS, answer_of, led};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::exchange::object::{ObjectError, digest};
use crate::model::annotation::AnswerKind;
use crate::model::column::ColumnEnum as _;
use crate::model::{annotation, asking, hold, job, question, tally, undo};
use crate::rule::job::load_job;
use crate::service::lease;
use crate::service::round::object_error;

/// The answers of a closed round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundAnswers {
    /// The number of questions of the round.
    pub asked: u64,
    /// The number of them with all requested answers.
    pub answered: u64,
    /// The answers in their wire format: see [`undertone_proto::question`].
    pub bytes: Vec<u8>,
    /// SHA-256 of these bytes, hex.
    pub digest: String,
}

/// Waits up to `wait_seconds` for a round to close. Returns its answers, or else the numbers of its questions and of
/// the answered ones. It also closes a round past its deadline.
///
/// # Errors
/// 403 for any worker but the lead's, `validation_failed` for a round that was not chosen, `lease_lost`.
pub async fn answers(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    number: u32,
    wait_seconds: u32,
) -> Result<Result<RoundAnswers, (u64, u64)>, Error> {
    let wait = Wait::from_secs(u64::from(wait_seconds.min(LONGEST_WAIT)));
    let end = tokio::time::Instant::now() + wait;
    let mut waiter = ctx.changes().subscribe_to_job(lease::find_lease(ctx.db.read(), worker, token).await?.job);
    loop {
        let (held, row) = lease::at_work(ctx.db.read(), worker, token).await?;
        lease::extend(ctx, &held, token).await?;
        let questions = led(&row, &held)?;
        let strange = || Error::validation(vec![Violation::new("round", "no questions were chosen in it")]);
        let number = i32::try_from(number).ok().filter(|number| *number > POOLS).ok_or_else(strange)?;
        let round = find(ctx.db.read(), row.id, number).await?.ok_or_else(strange)?;
        if round.closed_at.is_some() || if_due(ctx, held.job, number, questions.annotators).await? {
            return Ok(Ok(closed(ctx, held.job, &round, questions.annotators).await?));
        }
        let remaining = end.saturating_duration_since(tokio::time::Instant::now());
        if remaining.is_zero() || ctx.shutdown.is_cancelled() {
            let count = count_answered(ctx.db.read(), row.id, number, questions.annotators).await?;
            return Ok(Err((round.questions as u64, count)));
        }
        tokio::select! {
            () = waiter.wait(remaining.min(LOOK_AGAIN)) => {}
            () = ctx.shutdown.cancelled() => {}
        }
    }
}

/// Returns a closed round's answers, in the order of its questions, then of the annotators' numbers.
async fn closed(ctx: &Ctx, job: JobId, round: &asking::Model, needed: u32) -> Result<RoundAnswers, Error> {
    let connection = ctx.db.read();
    let places: Vec<(Uuid, i32)> = question::Entity::find()
        .select_only()
        .column(question::Column::Id)
        .column(question::Column::Place)
        .filter(question::Column::JobId.eq(job.0))
        .filter(question::Column::Round.eq(round.round))
        .into_tuple()
        .all(connection)
        .await?;
    let places: HashMap<Uuid, i32> = places.into_iter().collect();
    let mut rows = counting(job.0).filter(annotation::Column::Round.eq(round.round)).all(connection).await?;
    rows.sort_by_key(|row| (places.get(&row.question_id).copied(), row.annotator));
    let answers = rows.iter().map(|row| {
        let answer = answer_of(*row.answer, row.label.as_deref())?;
        Ok(AnswerLine { question: row.question_id.into(), annotator: row.annotator as u32, answer })
    });
    let answers = answers.collect::<Result<Vec<_>, Error>>()?;
    let bytes = write_answers(&answers).map_err(|error| object_error(ObjectError::Questions(error)))?;
    let count = count_answered(connection, job.0, round.round, needed).await?;
    Ok(RoundAnswers { asked: round.questions as u64, answered: count, digest: digest(&bytes), bytes })
}

/// Returns a round of questions.
pub(super) async fn find(
    connection: &impl ConnectionTrait,
    job: Uuid,
    number: i32,
) -> Result<Option<asking::Model>, Error> {
    Ok(asking::Entity::find_by_id((job, number)).one(connection).await?)
}

/// Returns the open round: there is one at most.
pub(super) async fn open(connection: &impl ConnectionTrait, job: Uuid) -> Result<Option<asking::Model>, Error> {
    let rounds = asking::Entity::find().filter(asking::Column::JobId.eq(job)).filter(asking::Column::Round.gt(POOLS));
    Ok(rounds.filter(asking::Column::ClosedAt.is_null()).one(connection).await?)
}

/// Selects the answers of a job that were not withdrawn, including skips.
pub(super) fn current(job: Uuid) -> Select<annotation::Entity> {
    current_of(&[job])
}

/// Selects the same as [`current`], for several jobs.
pub(super) fn current_of(jobs: &[Uuid]) -> Select<annotation::Entity> {
    let undone = Query::select()
        .column(undo::Column::AnnotationId)
        .from(undo::Entity)
        .and_where(undo::Column::JobId.is_in(jobs.iter().copied()))
        .to_owned();
    annotation::Entity::find()
        .filter(annotation::Column::JobId.is_in(jobs.iter().copied()))
        .filter(annotation::Column::Id.not_in_subquery(undone))
}

/// Selects the same as [`current`], without skips.
pub(super) fn counting(job: Uuid) -> Select<annotation::Entity> {
    counting_of(&[job])
}

/// Selects the same as [`counting`], for several jobs.
pub(super) fn counting_of(jobs: &[Uuid]) -> Select<annotation::Entity> {
    current_of(jobs).filter(annotation::Column::Answer.ne(AnswerKind::Skip.to_text()))
}

/// Returns the number of a round's questions with all requested answers.
pub(super) async fn count_answered(
    connection: &impl ConnectionTrait,
    job: Uuid,
    round: i32,
    needed: u32,
) -> Result<u64, Error> {
    let full = tally::Column::Answers.gte(needed as i32);
    Ok(of_round(job, round).filter(full).count(connection).await?)
}

fn of_round(job: Uuid, round: i32) -> Select<tally::Entity> {
    tally::Entity::find().filter(tally::Column::JobId.eq(job)).filter(tally::Column::Round.eq(round))
}

/// Closes a round if it is due; returns whether it is closed.
pub(super) async fn if_due(ctx: &Ctx, job: JobId, number: i32, needed: u32) -> Result<bool, Error> {
    let Some(round) = find(ctx.db.read(), job.0, number).await? else { return Ok(false) };
    if round.closed_at.is_some() {
        return Ok(true);
    }
    if !due(ctx, ctx.db.read(), &round, needed).await? {
        return Ok(false);
    }
    let closed = ctx
        .db
        .write("close questions", async |tx| {
            let row = load_job(tx, job).await?;
            let Some(round) = find(tx, job.0, number).await? else { return Ok(false) };
            close_in(ctx, tx, row, round, needed).await
        })
        .await?;
    ctx.changes().notify_job(job);
    Ok(closed)
}

/// Closes a round as [`if_due`], in the caller's transaction.
pub(super) async fn close_in(
    ctx: &Ctx,
    tx: &Tx,
    row: job::Model,
    round: asking::Model,
    needed: u32,
) -> Result<bool, Error> {
    if round.closed_at.is_some() {
        return Ok(true);
    }
    if !row.state.is_under_way() || !due(ctx, tx, &round, needed).await? {
        return Ok(false);
    }
    tracing::info!(job.id = %row.id, round = round.round, "a round of questions closed");
    hold::Entity::delete_many().filter(hold::Column::JobId.eq(row.id)).exec(tx).await?;
    let closed = asking::Model { closed_at: Some(ctx.now()), ..round };
    closed.into_active_model().reset_all().update(tx).await?;
    let rounds_done = row.rounds_done + 1;
    job::Model { rounds_done, ..row }.into_active_model().reset_all().update(tx).await?;
    Ok(true)
}

async fn due(ctx: &Ctx, connection: &impl ConnectionTrait, round: &asking::Model, needed: u32) -> Result<bool, Error> {
    if ctx.now() >= round.deadline {
        return Ok(true);
    }
    let lacking = of_round(round.job_id, round.round).filter(tally::Column::Answers.lt(needed as i32));
    Ok(lacking.one(connection).await?.is_none())
}
