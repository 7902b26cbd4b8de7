//! The lead's choice of questions from the pools, round by round. Only chosen texts are written to the database.

use std::collections::{HashMap, HashSet};

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QuerySelect as _,
};
use time::Duration;
use undertone_api::id::{JobId, QuestionId, WorkerId};
use undertone_api::problem::{Code, Violation};
use undertone_api::question::QuestionPlan;
use uuid::Uuid;

use super::pools::is_closed;
use super::{ROWS, close, led, pools, stored};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::exchange::annotate::{self, PoolQuestion};
use crate::model::{asking, job, question, tally};
use crate::service::lease;
use crate::service::round::object_error;

/// A chosen question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuestionChoice {
    /// The question.
    pub question: QuestionId,
    /// The lead's uncertainty: more uncertain questions come first.
    pub uncertainty: f64,
}

/// Opens a round with the chosen questions. Returns whether the same choice had been made before.
///
/// # Errors
/// 403 for any worker but the lead's; `validation_failed` with every invalid choice: too many, twice, asked before, not
/// of the job's pools; `not_ready` before the pools or the previous round are closed; `already_exists` when other
/// questions were chosen in the round; `lease_lost`.
pub async fn choose(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    round: u32,
    chosen: &[QuestionChoice],
) -> Result<bool, Error> {
    let (held, row) = lease::at_work(ctx.db.read(), worker, token).await?;
    let questions = led(&row, &held)?;
    let violations = violations(&questions, round, chosen);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    lease::extend(ctx, &held, token).await?;
    let number = round as i32;
    if repeats(ctx.db.read(), &row, number, chosen).await? {
        return Ok(true);
    }
    ready(ctx.db.read(), &row, number).await?;
    let pools = pools(ctx.db.read(), held.job, &questions).await?;
    let ids: Vec<_> = chosen.iter().map(|choice| choice.question).collect();
    let candidates =
        annotate::find(&ctx.store, ctx.readings(), held.job, &stored(&pools), &ids).await.map_err(object_error)?;
    let strange = strange(ctx.db.read(), chosen, &candidates).await?;
    if !strange.is_empty() {
        return Err(Error::validation(strange));
    }
    let repeated = ctx
        .db
        .write("choose questions", async |tx| {
            let (held, row) = lease::at_work(tx, worker, token).await?;
            if repeats(tx, &row, number, chosen).await? {
                return Ok(true);
            }
            ready(tx, &row, number).await?;
            insert(ctx, tx, held.job, &questions, number, chosen, &candidates).await?;
            Ok(false)
        })
        .await?;
    ctx.changes().notify_job(held.job);
    Ok(repeated)
}

fn violations(questions: &QuestionPlan, round: u32, chosen: &[QuestionChoice]) -> Vec<Violation> {
    let mut violations = Vec::new();
    if !(1..=questions.rounds).contains(&round) {
        violations.push(Violation::new("round", format!("the job has rounds 1 to {}", questions.rounds)));
    }
    if chosen.is_empty() || chosen.len() > questions.batch as usize {
        let message = format!("choose 1 to {} questions, not {}", questions.batch, chosen.len());
        violations.push(Violation::new("chosen", message));
    }
    let mut unique = HashSet::new();
    for (index, choice) in chosen.iter().enumerate() {
        if !unique.insert(choice.question) {
            violations.push(Violation::new(format!("chosen.{index}.question"), "each question once"));
        }
        if !choice.uncertainty.is_finite() {
            violations.push(Violation::new(format!("chosen.{index}.uncertainty"), "a finite number"));
        }
    }
    violations
}

/// Returns whether exactly these questions were chosen in the round already.
async fn repeats(
    connection: &impl ConnectionTrait,
    row: &job::Model,
    number: i32,
    chosen: &[QuestionChoice],
) -> Result<bool, Error> {
    if close::find(connection, row.id, number).await?.is_none() {
        return Ok(false);
    }
    let before: Vec<Uuid> = question::Entity::find()
        .select_only()
        .column(question::Column::Id)
        .filter(question::Column::JobId.eq(row.id))
        .filter(question::Column::Round.eq(number))
        .into_tuple()
        .all(connection)
        .await?;
    let before: HashSet<Uuid> = before.into_iter().collect();
    if before.len() == chosen.len() && chosen.iter().all(|choice| before.contains(&choice.question.0)) {
        return Ok(true);
    }
    Err(Error::problem(Code::AlreadyExists, format!("other questions were chosen in round {number}: they stand")))
}

/// Checks that the round may begin.
async fn ready(connection: &impl ConnectionTrait, row: &job::Model, number: i32) -> Result<(), Error> {
    if !is_closed(connection, row).await? {
        return Err(Error::problem(Code::NotReady, "the pools are not closed: fetch them first"));
    }
    let before = close::find(connection, row.id, number - 1).await?;
    if before.is_none_or(|before| before.closed_at.is_none()) {
        return Err(Error::problem(Code::NotReady, format!("round {} is not closed yet", number - 1)));
    }
    Ok(())
}

/// Returns the violations of choices that are in no pool, or were asked in an earlier round.
async fn strange(
    connection: &impl ConnectionTrait,
    chosen: &[QuestionChoice],
    candidates: &HashMap<QuestionId, PoolQuestion>,
) -> Result<Vec<Violation>, Error> {
    let mut earlier = HashSet::new();
    for some in chosen.chunks(ROWS) {
        let ids = question::Entity::find().select_only().column(question::Column::Id);
        let ids = ids.filter(question::Column::Id.is_in(some.iter().map(|choice| choice.question.0)));
        earlier.extend(ids.into_tuple::<Uuid>().all(connection).await?);
    }
    let say = |(index, choice): (usize, &QuestionChoice)| {
        let message = if !candidates.contains_key(&choice.question) {
            "it is in no pool of this job"
        } else if earlier.contains(&choice.question.0) {
            "it was asked in a round before"
        } else {
            return None;
        };
        Some(Violation::new(format!("chosen.{index}.question"), message))
    };
    Ok(chosen.iter().enumerate().filter_map(say).collect())
}

async fn insert(
    ctx: &Ctx,
    tx: &Tx,
    job: JobId,
    questions: &QuestionPlan,
    round: i32,
    chosen: &[QuestionChoice],
    candidates: &HashMap<QuestionId, PoolQuestion>,
) -> Result<(), Error> {
    let now = ctx.now();
    let open = asking::Model {
        job_id: job.0,
        round,
        questions: chosen.len() as i64,
        opened_at: now,
        deadline: now + Duration::seconds(i64::from(questions.deadline_seconds)),
        closed_at: None,
    };
    open.into_active_model().insert(tx).await?;
    let mut queue = chosen.to_vec();
    // A stable sort: equal uncertainties keep the lead's order.
    queue.sort_by(|a, b| b.uncertainty.total_cmp(&a.uncertainty));
    let placed: Vec<(i32, &QuestionChoice)> = (0..).zip(&queue).collect();
    for some in placed.chunks(ROWS) {
        let (mut rows, mut tallies) = (Vec::new(), Vec::new());
        for (place, choice) in some {
            let candidate = candidates.get(&choice.question).ok_or_else(|| Error::not_found("question"))?;
            let row = question::Model {
                id: candidate.id.0,
                job_id: job.0,
                dataset_id: candidate.dataset.0,
                round,
                place: *place,
                uncertainty: choice.uncertainty,
                text: candidate.text.clone(),
                count: candidate.count.map(|count| count as i64),
                chosen_at: now,
            };
            rows.push(row.into_active_model());
            let tally = tally::Model { question_id: candidate.id.0, job_id: job.0, round, answers: 0 };
            tallies.push(tally.into_active_model());
        }
        question::Entity::insert_many(rows).exec_without_returning(tx).await?;
        tally::Entity::insert_many(tallies).exec_without_returning(tx).await?;
    }
    tracing::info!(job.id = %job, round, questions = chosen.len(), "questions were chosen");
    Ok(())
}
