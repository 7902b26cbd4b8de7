//! Questions: the texts that sites release for annotation, the lead's choice among them, and the annotators' answers.
//!
//! `pool` accepts a site's released texts, in the transaction of their charge; `choose` opens rounds of questions;
//! `queue` assigns the next question to each annotator; `answer` records answers and withdraws them; `close` ends a
//! round and returns its answers to the lead; `list` shows, `figures` counts, `export` and `import` transfer answers.
//! [`QuestionPlan`] describes the questions of a kind: no file here depends on a kind.
//!
//! The job knows annotators by a number. The member behind a number is disclosed to no user, including the lead.

mod agreement;
mod answer;
mod choose;
mod close;
mod export;
mod figures;
mod import;
mod list;
mod pools;
mod queue;
#[cfg(test)]
mod tests;

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _};
use undertone_api::id::{ConsortiumId, JobId, QuestionId};
use undertone_api::question::{Answer, QuestionPlan};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::exchange::annotate::StoredPool;
use crate::model::annotation::AnswerKind;
use crate::model::{job, participant, pool, question};
use crate::rule::job::load_job;
use crate::service::lease::ActiveLease;

pub use answer::{annotate, take_back};
pub use choose::{QuestionChoice, choose};
pub use close::{RoundAnswers, answers};
pub use export::{QuestionExport, export};
pub use figures::asking;
pub use import::MOST as MOST_IMPORTED;
pub use import::import;
pub(crate) use list::standing;
pub use list::{QuestionFilter, list};
pub use pools::LONGEST_WAIT;
pub use pools::{AcceptedPool, JobPools, PoolHeader, PoolUpload, begin, wait_for_pools};
pub use queue::next;

/// The round that stands for the pools.
const POOLS: i32 = 0;
/// The highest number of rows written by one statement: databases limit the number of values in it.
const ROWS: usize = 500;

/// Returns the questions of a job; `None` for a job without any.
pub(crate) fn read_plan(row: &job::Model) -> Option<QuestionPlan> {
    if row.asks { row.spec.questions() } else { None }
}

/// Returns the questions of a job that must have some.
fn require_plan(row: &job::Model) -> Result<QuestionPlan, Error> {
    read_plan(row).ok_or_else(|| Error::wrong_state("the job asks nothing of people"))
}

/// Returns the questions of a job, for its lead.
fn led(row: &job::Model, held: &ActiveLease) -> Result<QuestionPlan, Error> {
    let questions = require_plan(row)?;
    if questions.lead == held.dataset {
        Ok(questions)
    } else {
        Err(Error::forbidden("only the lead participant reads pools, chooses questions and reads answers"))
    }
}

/// Returns the pools of a job, in the order of its participants.
async fn pools(
    connection: &impl ConnectionTrait,
    job: JobId,
    questions: &QuestionPlan,
) -> Result<Vec<pool::Model>, Error> {
    let mut rows = pool::Entity::find().filter(pool::Column::JobId.eq(job.0)).all(connection).await?;
    let place = |row: &pool::Model| questions.asking.iter().position(|dataset| dataset.0 == row.dataset_id);
    rows.sort_by_key(place);
    Ok(rows)
}

/// Returns whether a job with questions has a pool, or can still get one.
pub(crate) async fn can_go_on(
    connection: &impl ConnectionTrait,
    row: &job::Model,
    parts: &[participant::Model],
) -> Result<bool, Error> {
    let Some(questions) = read_plan(row) else { return Ok(true) };
    let may_ask =
        |part: &participant::Model| !part.state.is_out() && questions.asking.contains(&part.dataset_id.into());
    Ok(parts.iter().any(may_ask) || !pools(connection, row.id.into(), &questions).await?.is_empty())
}

fn stored(rows: &[pool::Model]) -> Vec<StoredPool> {
    rows.iter().map(|row| StoredPool { dataset: row.dataset_id.into(), object: row.object.as_str().into() }).collect()
}

/// Returns a job on whose questions the caller may perform the operation; not found if it has none.
async fn askable(
    ctx: &Ctx,
    actor: &Actor,
    operation: Operation,
    id: JobId,
) -> Result<(job::Model, QuestionPlan), Error> {
    let row = load_job(ctx.db.read(), id).await?;
    may(actor, operation, &row, "job")?;
    let questions = read_plan(&row).ok_or_else(|| Error::not_found("question of this job"))?;
    Ok((row, questions))
}

/// Returns a question that the caller may answer.
async fn answerable(ctx: &Ctx, actor: &Actor, id: QuestionId) -> Result<(question::Model, job::Model), Error> {
    let question = question::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let question = question.ok_or_else(|| Error::not_found("question"))?;
    let row = load_job(ctx.db.read(), question.job_id.into()).await?;
    may(actor, Operation::Annotate, &row, "question")?;
    Ok((question, row))
}

/// Checks the policy. Without access to the consortium, the error is that `what` is not found.
fn may(actor: &Actor, operation: Operation, row: &job::Model, what: &str) -> Result<(), Error> {
    let hidden = undertone_api::problem::Code::NotFound;
    policy::check(actor, operation, Place::Consortium(ConsortiumId(row.consortium_id)))
        .map_err(|error| if error.code() == hidden { Error::not_found(what) } else { error })
}

/// Returns the two columns of an answer.
fn columns(answer: &Answer) -> (AnswerKind, Option<String>) {
    let kind = match answer {
        Answer::Label { .. } => AnswerKind::Label,
        Answer::Unsure => AnswerKind::Unsure,
        Answer::Skip => AnswerKind::Skip,
    };
    (kind, answer.label().map(str::to_owned))
}

/// Returns the answer of two columns.
fn answer_of(kind: AnswerKind, label: Option<&str>) -> Result<Answer, Error> {
    match (kind, label) {
        (AnswerKind::Label, Some(label)) => Ok(Answer::Label { label: label.to_owned() }),
        (AnswerKind::Unsure, None) => Ok(Answer::Unsure),
        (AnswerKind::Skip, None) => Ok(Answer::Skip),
        (other, _) => Err(Error::internal("reading an answer", format!("{other:?} is none"))),
    }
}
