//! The rehearsals of a plan among the consortium's jobs.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_api::job::{JobKind as _, JobState, Report, Spec, dp_sgd};
use undertone_api::plan::PlanRehearsal;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::job;
use crate::service::dataset;

/// The newest rehearsals of a consortium that are compared with a plan.
const MOST_COMPARED: u64 = 100;
/// The most rehearsals of one plan.
const MOST_LISTED: usize = 5;
/// The states of a rehearsal that has a result, or will have one.
const STATES: [JobState; 5] =
    [JobState::Proposed, JobState::Queued, JobState::Running, JobState::Paused, JobState::Finished];

/// Returns the rehearsals of a job, the newest first; empty for a job that cannot be rehearsed.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn rehearsals(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    spec: &Spec,
) -> Result<Vec<PlanRehearsal>, Error> {
    policy::check(actor, Operation::ReadJob, Place::Consortium(consortium))?;
    let datasets = dataset::in_consortium(ctx.db.read(), consortium).await?;
    find(ctx, consortium, spec, &datasets).await
}

/// Finds the rehearsals of a job. The caller has checked the policy.
pub(super) async fn find(
    ctx: &Ctx,
    consortium: ConsortiumId,
    spec: &Spec,
    datasets: &[Dataset],
) -> Result<Vec<PlanRehearsal>, Error> {
    let Spec::DpSgd(plan) = spec else { return Ok(Vec::new()) };
    if plan.private.is_none() {
        return Ok(Vec::new());
    }
    let plan = plan.clone().settle(datasets);
    // A rehearsal has no rounds at the server, which leaves few rows to read.
    let rows = job::Entity::find()
        .filter(job::Column::ConsortiumId.eq(consortium.0))
        .filter(job::Column::Kind.eq(dp_sgd::Spec::NAME))
        .filter(job::Column::Rounds.eq(0))
        .filter(job::Column::State.is_in(STATES.map(ColumnEnum::to_text)))
        .order_by_desc(job::Column::Id)
        .limit(MOST_COMPARED)
        .all(ctx.db.read())
        .await?;
    Ok(rows.iter().filter_map(|row| compare(row, &plan)).take(MOST_LISTED).collect())
}

/// Returns the rehearsal of a job's row, if it is one of the plan.
fn compare(row: &job::Model, plan: &dp_sgd::Spec) -> Option<PlanRehearsal> {
    let Spec::DpSgd(spec) = &*row.spec else { return None };
    let factors = spec.rehearsal_factors(plan)?;
    let rehearsal = PlanRehearsal {
        job: row.id.into(),
        title: row.title.clone(),
        state: *row.state,
        finished_at: row.finished_at,
        units: Vec::new(),
        own: None,
        best: None,
    };
    match row.report.as_deref() {
        Some(Report::DpSgd(report)) => {
            let report = report.rehearsal.as_ref();
            let measure = dp_sgd::SettingMeasure::from_loss(plan.model.loss);
            Some(report.map_or(rehearsal.clone(), |report| rehearsal.with_report(report, factors, measure)))
        }
        _ => Some(rehearsal),
    }
}

#[cfg(test)]
mod tests;
