//! Answers and their withdrawal. Each person answers a question once. An answer to a question that others have answered
//! often enough in the meantime is refused, so that the lead receives exactly the requested number of answers.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _,
};
use undertone_api::id::{JobId, QuestionId};
use undertone_api::job::JobState;
use undertone_api::problem::{Code, Violation};
use undertone_api::question::{Annotation, Answer, NewAnnotation, QuestionPlan};
use uuid::Uuid;

use super::{answer_of, answerable, close, columns, queue, require_plan};
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::annotation::AnswerKind;
use crate::model::{annotation, annotator, asking, hold, job, question, tally, undo};
use crate::rule::job::load_job;

/// The author of an answer, before their number is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerAuthor<'a> {
    /// A member.
    Member(Uuid),
    /// A named import of labels.
    Import(&'a str),
}

/// The result of recording an answer.
pub(super) enum AnswerOutcome {
    /// It is recorded.
    Taken(annotation::Model),
    /// It was recorded before.
    Repeated(annotation::Model),
    /// The same person has given another answer.
    Other,
    /// The question has the requested number of answers.
    Full,
    /// Its round is closed, or the job over.
    Closed,
}

/// Records the caller's answer. A repetition changes nothing; after a skip an answer is still possible.
///
/// # Errors
/// 404 and 403 as usual; `validation_failed` for a label that the job does not have; `already_exists` when the caller
/// has given another answer; `round_closed` when it is too late.
pub async fn annotate(ctx: &Ctx, actor: &Actor, id: QuestionId, new: &NewAnnotation) -> Result<Annotation, Error> {
    let (found, row) = answerable(ctx, actor, id).await?;
    let questions = require_plan(&row)?;
    if !knows(&questions, &new.answer) {
        let message = "the job has no such label: choose one of its labels, unsure or skip";
        return Err(Error::validation(vec![Violation::new("label", message)]));
    }
    let who = AnswerAuthor::Member(actor.id().0);
    let recorded = ctx.db.write("annotate", async |tx| {
        let number = number(ctx, tx, found.job_id.into(), who).await?;
        let recorded = record(ctx, tx, &questions, &found, number, &new.answer).await?;
        if matches!(recorded, AnswerOutcome::Taken(_)) {
            hold::Entity::delete_by_id((found.id, actor.id().0)).exec(tx).await?;
            end(ctx, tx, &found, &questions).await?;
        }
        Ok(recorded)
    });
    let recorded = recorded.await?;
    ctx.changes().notify_job(found.job_id.into());
    match recorded {
        AnswerOutcome::Taken(row) | AnswerOutcome::Repeated(row) => to_annotation(&row, false),
        AnswerOutcome::Other => {
            Err(Error::problem(Code::AlreadyExists, "you have answered this question: take that answer back first"))
        }
        AnswerOutcome::Full => Err(Error::problem(Code::RoundClosed, "others have answered this question meanwhile")),
        AnswerOutcome::Closed => Err(too_late()),
    }
}

/// Withdraws the caller's answer to a question, and assigns the question to the caller again.
///
/// # Errors
/// 404 and 403 as usual, and when the caller has not answered; `round_closed` when the lead has the answer already.
pub async fn take_back(ctx: &Ctx, actor: &Actor, id: QuestionId) -> Result<Annotation, Error> {
    let (found, _) = answerable(ctx, actor, id).await?;
    let member = actor.id().0;
    let undone = ctx.db.write("take answer back", async |tx| {
        let nothing = || Error::not_found("answer of yours");
        let own = annotator::Entity::find()
            .filter(annotator::Column::JobId.eq(found.job_id))
            .filter(annotator::Column::MemberId.eq(member));
        let own = own.one(tx).await?.ok_or_else(nothing)?;
        let last = latest(tx, &found, own.number).await?.ok_or_else(nothing)?;
        if open(ctx, tx, &found).await?.is_none() {
            return Err(too_late());
        }
        withdraw(ctx, tx, &last).await?;
        queue::hold(ctx, tx, &found, member).await?;
        Ok(last)
    });
    let undone = undone.await?;
    ctx.changes().notify();
    to_annotation(&undone, true)
}

fn too_late() -> Error {
    Error::problem(Code::RoundClosed, "the round of this question is closed: the lead has its answers")
}

/// Returns whether an answer uses only labels of the job.
pub(super) fn knows(questions: &QuestionPlan, answer: &Answer) -> bool {
    answer.label().is_none_or(|label| questions.labels.iter().any(|known| known.name == label))
}

/// Records an answer, in the caller's transaction.
pub(super) async fn record(
    ctx: &Ctx,
    tx: &Tx,
    questions: &QuestionPlan,
    found: &question::Model,
    annotator: i32,
    answer: &Answer,
) -> Result<AnswerOutcome, Error> {
    if open(ctx, tx, found).await?.is_none() {
        return Ok(AnswerOutcome::Closed);
    }
    let (kind, label) = columns(answer);
    let before = latest(tx, found, annotator).await?;
    if let Some(before) = before {
        if before.answer == kind && before.label == label {
            return Ok(AnswerOutcome::Repeated(before));
        }
        if before.answer != AnswerKind::Skip {
            return Ok(AnswerOutcome::Other);
        }
        withdraw(ctx, tx, &before).await?;
    }
    let tally = tally::Entity::find_by_id(found.id).one(tx).await?.ok_or_else(|| Error::not_found("question"))?;
    if answer.counts() {
        if tally.answers >= questions.annotators as i32 {
            return Ok(AnswerOutcome::Full);
        }
        count(tx, tally, 1).await?;
    }
    let row = annotation::Model {
        id: ctx.id::<Uuid>(),
        job_id: found.job_id,
        question_id: found.id,
        round: found.round,
        annotator,
        answer: kind.into(),
        label,
        at: ctx.now(),
    };
    Ok(AnswerOutcome::Taken(row.into_active_model().insert(tx).await?))
}

/// Closes the round of a newly answered question, if it was the last one.
pub(super) async fn end(ctx: &Ctx, tx: &Tx, found: &question::Model, questions: &QuestionPlan) -> Result<(), Error> {
    if let Some((row, round)) = open(ctx, tx, found).await? {
        close::close_in(ctx, tx, row, round, questions.annotators).await?;
    }
    Ok(())
}

/// Returns the number of an annotator; a new one gets the next number.
pub(super) async fn number(ctx: &Ctx, tx: &Tx, job: JobId, who: AnswerAuthor<'_>) -> Result<i32, Error> {
    let all = || annotator::Entity::find().filter(annotator::Column::JobId.eq(job.0));
    let own = match who {
        AnswerAuthor::Member(member) => all().filter(annotator::Column::MemberId.eq(member)),
        AnswerAuthor::Import(name) => all().filter(annotator::Column::Name.eq(name)),
    };
    if let Some(known) = own.one(tx).await? {
        return Ok(known.number);
    }
    let number = i32::try_from(all().count(tx).await? + 1).map_err(|error| Error::internal("numbering", error))?;
    let (member_id, name) = match who {
        AnswerAuthor::Member(member) => (Some(member), None),
        AnswerAuthor::Import(name) => (None, Some(name.to_owned())),
    };
    let row = annotator::Model { job_id: job.0, number, member_id, name, joined_at: ctx.now() };
    row.into_active_model().insert(tx).await?;
    Ok(number)
}

/// Returns the question's round and its job, while both accept answers.
async fn open(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    found: &question::Model,
) -> Result<Option<(job::Model, asking::Model)>, Error> {
    let row = load_job(connection, found.job_id.into()).await?;
    let round = close::find(connection, found.job_id, found.round).await?;
    let open = round.filter(|round| round.closed_at.is_none() && ctx.now() < round.deadline);
    Ok(open.filter(|_| row.state == JobState::Running).map(|round| (row, round)))
}

/// Returns the valid answer of an annotator to a question, including skips.
async fn latest(
    connection: &impl ConnectionTrait,
    found: &question::Model,
    annotator: i32,
) -> Result<Option<annotation::Model>, Error> {
    let own = close::current(found.job_id).filter(annotation::Column::QuestionId.eq(found.id));
    Ok(own.filter(annotation::Column::Annotator.eq(annotator)).one(connection).await?)
}

async fn withdraw(ctx: &Ctx, tx: &Tx, row: &annotation::Model) -> Result<(), Error> {
    let undo = undo::Model { annotation_id: row.id, job_id: row.job_id, at: ctx.now() };
    undo.into_active_model().insert(tx).await?;
    if row.answer != AnswerKind::Skip
        && let Some(tally) = tally::Entity::find_by_id(row.question_id).one(tx).await?
    {
        count(tx, tally, -1).await?;
    }
    Ok(())
}

async fn count(tx: &Tx, tally: tally::Model, more: i32) -> Result<(), Error> {
    let answers = tally.answers + more;
    tally::Model { answers, ..tally }.into_active_model().reset_all().update(tx).await?;
    Ok(())
}

fn to_annotation(row: &annotation::Model, undone: bool) -> Result<Annotation, Error> {
    Ok(Annotation {
        question: row.question_id.into(),
        annotator: row.annotator as u32,
        answer: answer_of(*row.answer, row.label.as_deref())?,
        at: row.at,
        undone,
    })
}
