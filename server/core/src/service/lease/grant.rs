//! The grant of a lease.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use time::Duration;
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::job::JobStep;
use undertone_api::job::log::LogEvent;

use super::SECONDS;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::participant::PartState;
use crate::model::{job, lease, participant};
use crate::rule::job::load_job;
use crate::service::audit_log::AuditAuthor;
use crate::service::job::state;
use crate::service::{job_log, ledger};

/// Begins a lease of a participant for its worker: a new token, valid at once.
///
/// # Errors
/// `wrong_state` when the job has no work to give, or nothing is reserved for its charges.
pub(crate) async fn grant(
    ctx: &Ctx,
    tx: &Tx,
    worker: WorkerId,
    job: JobId,
    dataset: DatasetId,
) -> Result<(job::Model, participant::Model, String), Error> {
    let row = load_job(tx, job).await?;
    let part = participant::Entity::find_by_id((job.0, dataset.0)).one(tx).await?;
    let part = part.filter(|part| part.worker_id == worker.0).ok_or_else(|| Error::not_found("job"))?;
    if !part.state.is_open() {
        return Err(Error::wrong_state("this participant has done its part"));
    }
    if part.charge.is_some()
        && ledger::find_reservation(tx, job.0, dataset.0).await?.is_none_or(|reservation| reservation.settled)
    {
        return Err(Error::wrong_state("nothing is reserved for this participant: it must not run"));
    }
    // After the end of the job, a participant that had a lease gets another one, only to finish its part.
    let to_end = part.state == PartState::Running && part.charge.is_some() && row.state.is_over();
    let row =
        if to_end { row } else { state::step(ctx, tx, AuditAuthor::Worker(worker), row, JobStep::Start, None).await? };
    let before = lease::Entity::find_by_id((job.0, dataset.0)).one(tx).await?;
    let token = ctx.random.secret();
    let next = lease::Model {
        job_id: job.0,
        dataset_id: dataset.0,
        worker_id: worker.0,
        token: token.clone(),
        number: before.as_ref().map_or(1, |lease| lease.number + 1),
        granted_at: ctx.now(),
        expires_at: ctx.now() + Duration::seconds(i64::from(SECONDS)),
    };
    let number = u32::try_from(next.number).unwrap_or(u32::MAX);
    let next = next.into_active_model().reset_all();
    if before.is_some() {
        next.update(tx).await?
    } else {
        next.insert(tx).await?
    };
    let part = participant::Model { state: PartState::Running.into(), ..part };
    let part = part.into_active_model().reset_all().update(tx).await?;
    job_log::note(ctx, tx, job.0, Some(dataset.0), LogEvent::Leased { times: number }).await?;
    Ok((row, part, token))
}
