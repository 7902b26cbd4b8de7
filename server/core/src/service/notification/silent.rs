//! Notices about workers that have become silent while a job needs them, which no message reports. Every replica checks
//! for them every 15 seconds (`scheduler`).

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use time::Duration;
use undertone_api::job::JobState;

use super::notice::{MemberNotice, tell};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::participant::PartState;
use crate::model::{job, notification, participant, worker};

/// The time after which a worker counts as silent here: twice a lease, so that a restart causes no notice.
const SILENT: Duration = Duration::minutes(2);

/// Notifies about every silence that has lasted long enough, once each.
///
/// # Errors
/// When the database fails.
pub async fn look(ctx: &Ctx) -> Result<(), Error> {
    let at_work = [JobState::Queued, JobState::Running].map(ColumnEnum::to_text);
    let jobs = job::Entity::find().filter(job::Column::State.is_in(at_work)).all(ctx.db.read()).await?;
    for job in jobs {
        let parts = participant::Entity::find()
            .filter(participant::Column::JobId.eq(job.id))
            .filter(participant::Column::State.is_in(PartState::OPEN.map(ColumnEnum::to_text)))
            .all(ctx.db.read())
            .await?;
        for part in parts {
            let Some(worker) = worker::Entity::find_by_id(part.worker_id).one(ctx.db.read()).await? else { continue };
            let Some(since) = worker.last_seen_at.filter(|at| ctx.now() - *at > SILENT) else { continue };
            let key = format!("worker_silent:{}:{}", worker.id, since.unix_timestamp());
            let earlier =
                notification::Entity::find().filter(notification::Column::Key.eq(key)).one(ctx.db.read()).await?;
            if earlier.is_none() {
                let notice = MemberNotice::WorkerSilent { job: &job, part: &part, worker: &worker, since };
                ctx.db.write("tell of a silent worker", async |tx| tell(ctx, tx, notice).await).await?;
                ctx.changes().notify();
            }
        }
    }
    Ok(())
}
