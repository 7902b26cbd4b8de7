//! Lists of questions, asked or still in the pools, and the present activity of a job with questions.

use std::collections::{HashMap, HashSet};

use sea_orm::sea_query::Query;
use sea_orm::{
    ColumnTrait as _, Condition, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, Select,
};
use undertone_api::id::{DatasetId, JobId, QuestionId};
use undertone_api::job::JobParticipant;
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;
use undertone_api::question::{Question, QuestionPlan, QuestionState};
use uuid::Uuid;

use super::pools::{deadline, find_missing_participants, is_closed};
use super::{POOLS, askable, close, pools, read_plan, stored};
use crate::auth::{Actor, Operation};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::exchange::annotate::{self, PoolQuestion};
use crate::model::{asking, job, question, tally};
use crate::service::round::object_error;

/// A filter of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuestionFilter {
    /// The state. Unchosen questions are listed only on request, and only while the job runs: then the pools are
    /// deleted.
    pub state: Option<QuestionState>,
    /// The round.
    pub round: Option<u32>,
    /// The dataset of the pool.
    pub dataset: Option<DatasetId>,
}

/// Returns a sentence about the present activity of a running job with questions, or about the awaited event.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn standing(ctx: &Ctx, row: &job::Model, parts: &[JobParticipant]) -> Result<String, Error> {
    let connection = ctx.db.read();
    let (Some(questions), Some(lead)) = (read_plan(row), parts.first()) else { return Ok(String::new()) };
    if row.report.is_some() {
        return Ok("everything is asked and reported; the last sites end their part".to_owned());
    }
    if !is_closed(connection, row).await? {
        let missing = find_missing_participants(connection, row, &questions).await?;
        let names: Vec<&str> = missing.iter().map(|part| part.organization_name.as_str()).collect();
        let late = if ctx.now() > deadline(ctx, row, &questions) { ", past the deadline" } else { "" };
        return Ok(match names.as_slice() {
            [] => format!("waits for {} to read the questions of all sites", lead.organization_name),
            names => format!("waits for the questions of {}{late}", names.join(", ")),
        });
    }
    let Some(open) = close::open(connection, row.id).await? else {
        return Ok(format!("{} learns from the answers and chooses what to ask next", lead.organization_name));
    };
    let count = close::count_answered(connection, row.id, open.round, questions.annotators).await?;
    Ok(format!("round {} of {}: {count} of {} questions are answered", open.round, questions.rounds, open.questions))
}

/// Returns the questions of a job, in the order in which they are asked.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` for an invalid cursor.
pub async fn list(
    ctx: &Ctx,
    actor: &Actor,
    id: JobId,
    wanted: &QuestionFilter,
    page: &PageQuery,
) -> Result<Page<Question>, Error> {
    let (row, questions) = askable(ctx, actor, Operation::ReadQuestions, id).await?;
    let strange = || Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]);
    let after = page.cursor.as_deref().map(str::parse).transpose().map_err(|_| strange())?;
    let size = page.size() as usize;
    let mut items = if wanted.state == Some(QuestionState::Waiting) {
        waiting(ctx, &row, &questions, wanted, after, size + 1).await?
    } else {
        let mut query = select_asked(row.id).limit(size as u64 + 1);
        if let Some(state) = wanted.state {
            query = query.filter(in_state(ctx.db.read(), row.id, &questions, state).await?);
        }
        if let Some(round) = wanted.round {
            query = query.filter(question::Column::Round.eq(i64::from(round)));
        }
        if let Some(dataset) = wanted.dataset {
            query = query.filter(question::Column::DatasetId.eq(dataset.0));
        }
        if let Some(after) = after {
            let last = question::Entity::find_by_id(after.0).one(ctx.db.read()).await?;
            let last = last.filter(|last| last.job_id == row.id).ok_or_else(strange)?;
            query = query.filter(behind(&last));
        }
        to_questions(ctx.db.read(), &row, &questions, query.all(ctx.db.read()).await?).await?
    };
    let more = items.len() > size;
    items.truncate(size);
    let next = items.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(Page { items, next })
}

/// Selects the asked questions of a job, in order.
pub(super) fn select_asked(job: Uuid) -> Select<question::Entity> {
    question::Entity::find()
        .filter(question::Column::JobId.eq(job))
        .order_by_asc(question::Column::Round)
        .order_by_asc(question::Column::Place)
}

/// Returns the condition of the questions after a given one in that order.
pub(super) fn behind(last: &question::Model) -> Condition {
    Condition::any()
        .add(question::Column::Round.gt(last.round))
        .add(Condition::all().add(question::Column::Round.eq(last.round)).add(question::Column::Place.gt(last.place)))
}

async fn in_state(
    connection: &impl ConnectionTrait,
    job: Uuid,
    questions: &QuestionPlan,
    state: QuestionState,
) -> Result<Condition, Error> {
    let full = Query::select()
        .column(tally::Column::QuestionId)
        .from(tally::Entity)
        .and_where(tally::Column::JobId.eq(job))
        .and_where(tally::Column::Answers.gte(questions.annotators as i32))
        .to_owned();
    let open = close::open(connection, job).await?.map_or(POOLS, |round| round.round);
    let lacking = || Condition::all().add(question::Column::Id.not_in_subquery(full.clone()));
    Ok(match state {
        QuestionState::Answered => Condition::all().add(question::Column::Id.in_subquery(full)),
        QuestionState::Asked => lacking().add(question::Column::Round.eq(open)),
        QuestionState::Closed | QuestionState::Waiting => lacking().add(question::Column::Round.ne(open)),
    })
}

/// Returns rows as questions, in their order.
pub(super) async fn to_questions(
    connection: &impl ConnectionTrait,
    row: &job::Model,
    questions: &QuestionPlan,
    rows: Vec<question::Model>,
) -> Result<Vec<Question>, Error> {
    let tallies = tally::Entity::find().filter(tally::Column::QuestionId.is_in(rows.iter().map(|row| row.id)));
    let tallies: HashMap<Uuid, i32> =
        tallies.all(connection).await?.into_iter().map(|tally| (tally.question_id, tally.answers)).collect();
    let rounds = asking::Entity::find().filter(asking::Column::JobId.eq(row.id));
    let open = rounds.filter(asking::Column::ClosedAt.is_null()).all(connection).await?;
    let open: HashSet<i32> = open.into_iter().map(|round| round.round).collect();
    let over = row.state.is_over();
    let show = |found: question::Model| {
        let annotations = tallies.get(&found.id).copied().unwrap_or_default().max(0) as u32;
        let state = if annotations >= questions.annotators {
            QuestionState::Answered
        } else if open.contains(&found.round) && !over {
            QuestionState::Asked
        } else {
            QuestionState::Closed
        };
        Question {
            id: found.id.into(),
            job: found.job_id.into(),
            dataset: found.dataset_id.into(),
            text: found.text,
            count: found.count.map(|count| count as u64),
            uncertainty: Some(found.uncertainty),
            round: Some(found.round as u32),
            annotations,
            state,
        }
    };
    Ok(rows.into_iter().map(show).collect())
}

/// Returns the unchosen questions of the pools.
async fn waiting(
    ctx: &Ctx,
    row: &job::Model,
    questions: &QuestionPlan,
    wanted: &QuestionFilter,
    after: Option<QuestionId>,
    limit: usize,
) -> Result<Vec<Question>, Error> {
    if wanted.round.is_some() || row.state.is_over() {
        return Ok(Vec::new());
    }
    let job = JobId(row.id);
    let mut here = stored(&pools(ctx.db.read(), job, questions).await?);
    here.retain(|pool| wanted.dataset.is_none_or(|dataset| pool.dataset == dataset));
    let ids = question::Entity::find().filter(question::Column::JobId.eq(row.id)).select_only();
    let ids: Vec<Uuid> = ids.column(question::Column::Id).into_tuple().all(ctx.db.read()).await?;
    let ids: Vec<_> = ids.into_iter().map(QuestionId).collect();
    let rest =
        annotate::rest(&ctx.store, ctx.readings(), job, &here, &ids, after, limit).await.map_err(object_error)?;
    let show = |PoolQuestion { id, dataset, text, count }| Question {
        id,
        job,
        dataset,
        text,
        count,
        uncertainty: None,
        round: None,
        annotations: 0,
        state: QuestionState::Waiting,
    };
    Ok(rest.into_iter().map(show).collect())
}
