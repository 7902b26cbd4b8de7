//! The annotators' queue: the next questions of each member, the most uncertain first. Assigned questions are held for
//! a while, so that no question goes to more people than it needs answers from.

use std::collections::{HashMap, HashSet};

use sea_orm::sea_query::{OnConflict, Query};
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect, Select,
};
use time::Duration;
use undertone_api::id::JobId;
use undertone_api::question::{AnnotationQueue, QuestionPlan};
use uuid::Uuid;

use super::{agreement, askable, close, list};
use crate::auth::{Actor, Operation};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::annotation::AnswerKind;
use crate::model::column::ColumnEnum as _;
use crate::model::{annotation, annotator, asking, hold, question, tally};

/// The time for which a question is held for a member.
const HELD: Duration = Duration::minutes(5);
/// The number of questions assigned to a member: the displayed one and those that the page has prefetched.
const AHEAD: usize = 5;

/// Returns the caller's open questions in a job; none while no round is open.
///
/// # Errors
/// 404 and 403 as usual.
pub async fn next(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<AnnotationQueue, Error> {
    let (row, questions) = askable(ctx, actor, Operation::Annotate, id).await?;
    let member = actor.id().0;
    let mut queue = AnnotationQueue {
        job: id,
        title: row.title.clone(),
        guidelines: questions.guidelines.clone(),
        labels: questions.labels.clone(),
        questions: Vec::new(),
        done: 0,
        left: 0,
        held: 0,
        agreement: agreement::find_agreement(ctx.db.read(), id, &questions).await?,
    };
    let Some(round) = close::open(ctx.db.read(), row.id).await? else { return Ok(queue) };
    if ctx.now() >= round.deadline || !row.state.is_under_way() {
        return Ok(queue);
    }
    let own = own(ctx.db.read(), row.id, member).await?;
    if let Some(own) = own {
        queue.done = select_answers(&round, own, false).count(ctx.db.read()).await?;
    }
    queue.left =
        select_open_questions(&round, own, &questions, QuestionChoice::Unanswered).count(ctx.db.read()).await?;
    let ready = ready(ctx, ctx.db.read(), &round, own, &questions, member).await?;
    queue.held = ready.held;
    let next = if ready.stands {
        ready
    } else {
        ctx.db
            .write("hold questions", async |tx| {
                let next = self::ready(ctx, tx, &round, own, &questions, member).await?;
                for found in &next.questions {
                    hold(ctx, tx, found, member).await?;
                }
                Ok(next)
            })
            .await?
    };
    // Questions that the member skipped come last, and are not held: others may want to answer them.
    let rows = next.questions.into_iter().chain(next.skipped).collect();
    queue.questions = list::to_questions(ctx.db.read(), &row, &questions, rows).await?;
    Ok(queue)
}

/// The next questions of a member.
struct NextQuestions {
    questions: Vec<question::Model>,
    /// Questions that the member skipped.
    skipped: Vec<question::Model>,
    /// Whether all of them are held for the member, for some more time.
    stands: bool,
    /// The number of questions that the member could answer, if other members did not hold them.
    held: u64,
}

async fn ready(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    round: &asking::Model,
    own: Option<i32>,
    questions: &QuestionPlan,
    member: Uuid,
) -> Result<NextQuestions, Error> {
    let holds = hold::Entity::find().filter(hold::Column::JobId.eq(round.job_id));
    let holds = holds.filter(hold::Column::Until.gt(ctx.now())).all(connection).await?;
    let (mine, others): (Vec<_>, Vec<_>) = holds.into_iter().partition(|hold| hold.member_id == member);
    let mut before: HashMap<Uuid, i32> = HashMap::new();
    for hold in &others {
        *before.entry(hold.question_id).or_default() += 1;
    }
    let select = |choice| {
        let chosen = select_open_questions(round, own, questions, choice).order_by_asc(question::Column::Place);
        chosen.limit((AHEAD + before.len()) as u64)
    };
    let rows = select(QuestionChoice::New).all(connection).await?;
    let skipped = select(QuestionChoice::Skipped).all(connection).await?;
    let tallies = tally::Entity::find().filter(tally::Column::QuestionId.is_in(before.keys().copied()));
    let tallies: HashMap<Uuid, i32> =
        tallies.all(connection).await?.into_iter().map(|tally| (tally.question_id, tally.answers)).collect();
    let needs = |found: &question::Model| {
        let others = before.get(&found.id).copied().unwrap_or_default();
        tallies.get(&found.id).copied().unwrap_or_default() + others < questions.annotators as i32
    };
    // Each question that others hold is among the rows, unless the member has enough of their own.
    let (free, taken): (Vec<_>, Vec<_>) = rows.into_iter().partition(needs);
    let (again, gone): (Vec<_>, Vec<_>) = skipped.into_iter().partition(needs);
    let held = (taken.len() + gone.len()) as u64;
    let questions: Vec<_> = free.into_iter().take(AHEAD).collect();
    let skipped: Vec<_> = again.into_iter().take(AHEAD - questions.len()).collect();
    // Holds stay unchanged during the first half of their time, so that a repeated query writes nothing.
    let lasting = mine.iter().filter(|hold| hold.until - ctx.now() > HELD / 2);
    let lasting: HashSet<Uuid> = lasting.map(|hold| hold.question_id).collect();
    let stands = questions.iter().all(|found| lasting.contains(&found.id));
    Ok(NextQuestions { questions, skipped, stands, held })
}

/// Holds a question for a member, from now on.
pub(super) async fn hold(ctx: &Ctx, tx: &Tx, found: &question::Model, member: Uuid) -> Result<(), Error> {
    let until = ctx.now() + HELD;
    let row = hold::Model { question_id: found.id, member_id: member, job_id: found.job_id, until };
    let key = OnConflict::columns([hold::Column::QuestionId, hold::Column::MemberId])
        .update_column(hold::Column::Until)
        .to_owned();
    hold::Entity::insert(row.into_active_model()).on_conflict(key).exec_without_returning(tx).await?;
    Ok(())
}

/// Returns the number of a member in a job, once they have answered.
async fn own(connection: &impl ConnectionTrait, job: Uuid, member: Uuid) -> Result<Option<i32>, Error> {
    let own = annotator::Entity::find().filter(annotator::Column::JobId.eq(job));
    Ok(own.filter(annotator::Column::MemberId.eq(member)).one(connection).await?.map(|own| own.number))
}

/// Selects a member's answers in a round; with `skips` their skips instead.
fn select_answers(round: &asking::Model, own: i32, skips: bool) -> Select<annotation::Entity> {
    let skip = AnswerKind::Skip.to_text();
    let kind = annotation::Column::Answer;
    close::current(round.job_id)
        .filter(annotation::Column::Round.eq(round.round))
        .filter(annotation::Column::Annotator.eq(own))
        .filter(if skips { kind.eq(skip) } else { kind.ne(skip) })
}

/// The questions that a member could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionChoice {
    /// Those without an answer of the member.
    Unanswered,
    /// Those of them that the member has not skipped.
    New,
    /// Those of them that the member has skipped.
    Skipped,
}

/// Selects the questions of a round that lack answers and that a member could answer.
fn select_open_questions(
    round: &asking::Model,
    own: Option<i32>,
    questions: &QuestionPlan,
    choice: QuestionChoice,
) -> Select<question::Entity> {
    let lacking = Query::select()
        .column(tally::Column::QuestionId)
        .from(tally::Entity)
        .and_where(tally::Column::JobId.eq(round.job_id))
        .and_where(tally::Column::Round.eq(round.round))
        .and_where(tally::Column::Answers.lt(questions.annotators as i32))
        .to_owned();
    let query = question::Entity::find()
        .filter(question::Column::JobId.eq(round.job_id))
        .filter(question::Column::Round.eq(round.round))
        .filter(question::Column::Id.in_subquery(lacking));
    let Some(own) = own else {
        return if choice == QuestionChoice::Skipped { query.filter(question::Column::Id.is_null()) } else { query };
    };
    let ids = |skips| {
        let mut mine = select_answers(round, own, skips).select_only().column(annotation::Column::QuestionId);
        QuerySelect::query(&mut mine).to_owned()
    };
    let query = query.filter(question::Column::Id.not_in_subquery(ids(false)));
    match choice {
        QuestionChoice::Unanswered => query,
        QuestionChoice::New => query.filter(question::Column::Id.not_in_subquery(ids(true))),
        QuestionChoice::Skipped => query.filter(question::Column::Id.in_subquery(ids(true))),
    }
}
