//! Lists of jobs: newest first, by page, with filters.

use sea_orm::sea_query::extension::postgres::PgExpr as _;
use sea_orm::sea_query::{LikeExpr, Query, SimpleExpr};
use sea_orm::{
    ColumnTrait as _, Condition, DbBackend, EntityTrait as _, ExprTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _,
};
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, DatasetId, MemberId};
use undertone_api::job::{JobState, JobSummary};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{job, participant};

/// The length limit of a search text, in characters.
const LONGEST_TEXT: usize = 100;

/// A filter of jobs. Every given condition must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// The state.
    pub state: Option<JobState>,
    /// The kind.
    pub kind: Option<String>,
    /// A dataset of the job.
    pub dataset: Option<DatasetId>,
    /// The proposer.
    pub proposer: Option<MemberId>,
    /// The earliest time of the proposal.
    pub since: Option<OffsetDateTime>,
    /// A text in the title, case-insensitive.
    pub text: Option<String>,
}

/// Returns the jobs of a consortium, newest first.
///
/// # Errors
/// As [`search`].
pub async fn list(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    page: &PageQuery,
) -> Result<Page<JobSummary>, Error> {
    search(ctx, actor, consortium, &JobFilter::default(), page).await
}

/// Returns the jobs of a consortium that match the filter, newest first.
///
/// # Errors
/// 404 when the caller may not know the consortium, `validation_failed` for an invalid cursor or a search text that is
/// too long.
pub async fn search(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    wanted: &JobFilter,
    page: &PageQuery,
) -> Result<Page<JobSummary>, Error> {
    policy::check(actor, Operation::ReadJob, Place::Consortium(consortium))?;
    let mut query =
        job::Entity::find().filter(job::Column::ConsortiumId.eq(consortium.0)).filter(condition(ctx, wanted)?);
    if let Some(cursor) = &page.cursor {
        let before = Uuid::parse_str(cursor)
            .map_err(|_| Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]))?;
        query = query.filter(job::Column::Id.lt(before));
    }
    let size = page.size() as usize;
    let mut rows = query.order_by_desc(job::Column::Id).limit(Some(size as u64 + 1)).all(ctx.db.read()).await?;
    let more = rows.len() > size;
    rows.truncate(size);
    let next = rows.last().filter(|_| more).map(|row| row.id.to_string());
    Ok(Page { items: rows.iter().map(Into::into).collect(), next })
}

fn condition(ctx: &Ctx, wanted: &JobFilter) -> Result<Condition, Error> {
    let mut all = Condition::all();
    if let Some(state) = &wanted.state {
        all = all.add(job::Column::State.eq(state.to_text()));
    }
    if let Some(kind) = &wanted.kind {
        all = all.add(job::Column::Kind.eq(kind.as_str()));
    }
    if let Some(proposer) = wanted.proposer {
        all = all.add(job::Column::ProposerId.eq(proposer.0));
    }
    if let Some(since) = wanted.since {
        all = all.add(job::Column::CreatedAt.gte(since));
    }
    if let Some(dataset) = wanted.dataset {
        let naming = Query::select()
            .column(participant::Column::JobId)
            .from(participant::Entity)
            .and_where(participant::Column::DatasetId.eq(dataset.0))
            .take();
        all = all.add(job::Column::Id.in_subquery(naming));
    }
    if let Some(text) = &wanted.text {
        if text.chars().count() > LONGEST_TEXT {
            let violation = Violation::new("text", format!("give at most {LONGEST_TEXT} characters"));
            return Err(Error::validation(vec![violation]));
        }
        all = all.add(holds(text, ctx.db.read().get_database_backend()));
    }
    Ok(all)
}

/// Returns the condition that a title contains a text, case-insensitive: for ASCII letters on SQLite, for all on
/// PostgreSQL.
fn holds(text: &str, backend: DbBackend) -> SimpleExpr {
    let title = job::Column::Title.into_expr();
    match backend {
        // Without an ESCAPE clause, PostgreSQL uses the backslash; the query builder would write the clause in an
        // invalid place.
        DbBackend::Postgres => title.ilike(format!("%{}%", literal(text, '\\'))),
        // SQLite's LIKE has no escape character by default, and is case-insensitive.
        _ => title.like(LikeExpr::new(format!("%{}%", literal(text, '!'))).escape('!')),
    }
}

/// Returns a text with its wildcards escaped.
fn literal(text: &str, escape: char) -> String {
    text.chars()
        .flat_map(|c| (matches!(c, '%' | '_') || c == escape).then_some(escape).into_iter().chain([c]))
        .collect()
}
