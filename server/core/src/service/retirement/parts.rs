//! Unfinished jobs when a worker or an organization is retired. The rule:
//!
//! * A proposed job is refused: one of its parts could not run.
//! * In an admitted job, the retired parts end with a stated reason, and their leases with them. A part without any
//!   lease returns its reservation. A part that had one keeps it: it may have made releases that the server has not
//!   counted. It returns the rest after its worker is restored, the job is over, and the worker has submitted its
//!   receipts.
//! * The job continues with the others while its quorum allows. It fails when the lead is retired, when the quorum
//!   cannot be reached, or when the part owes a promised audit.
//! * Committed releases stay spent.

use std::collections::BTreeSet;

use sea_orm::{ColumnTrait as _, Condition, EntityTrait as _, QueryFilter as _};
use undertone_api::id::{ConsortiumId, JobId, OrganizationId, WorkerId};
use undertone_api::job::{JobState, JobStep};
use undertone_api::problem::Violation;
use uuid::Uuid;

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::{dataset, job, membership, organization, participant, worker};
use crate::rule::job::load_job;
use crate::service::audit_log::AuditAuthor;
use crate::service::job::{hold, state};
use crate::service::{finish, react};

/// The owner of the parts that end.
#[derive(Debug, Clone, Copy)]
pub(super) enum PartsOf {
    /// Those of a worker, in each job.
    Worker(WorkerId),
    /// Those of an organization, in the jobs of one consortium.
    Organization(OrganizationId, ConsortiumId),
}

/// Ends the parts in unfinished jobs, caused by `by`. Returns the jobs.
pub(super) async fn withdraw(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    of: PartsOf,
    reason: &str,
) -> Result<BTreeSet<JobId>, Error> {
    let is_theirs = match of {
        PartsOf::Worker(id) => Condition::all().add(participant::Column::WorkerId.eq(id.0)),
        PartsOf::Organization(id, _) => Condition::all().add(participant::Column::OrganizationId.eq(id.0)),
    };
    let open = [JobState::Proposed, JobState::Queued, JobState::Running, JobState::Paused];
    let open = open.map(ColumnEnum::to_text);
    let mut jobs = job::Entity::find().filter(job::Column::State.is_in(open));
    if let PartsOf::Organization(_, consortium) = of {
        jobs = jobs.filter(job::Column::ConsortiumId.eq(consortium.0));
    }
    let mut changed = BTreeSet::new();
    for found in jobs.all(tx).await? {
        let id = JobId(found.id);
        let own = participant::Entity::find()
            .filter(participant::Column::JobId.eq(found.id))
            .filter(is_theirs.clone())
            .all(tx)
            .await?;
        if own.is_empty() {
            continue;
        }
        changed.insert(id);
        if found.state == JobState::Proposed {
            state::step(ctx, tx, by, found, JobStep::Refuse, Some(format!("{}: {reason}", own[0].organization_name)))
                .await?;
            continue;
        }
        for part in own {
            let row = load_job(tx, id).await?;
            if row.state.is_over() {
                break;
            }
            let dataset = part.dataset_id.into();
            if part.state.is_open() {
                Box::pin(finish::withdraw(ctx, tx, by, row, part, reason)).await?;
            }
            // Otherwise its own holds would block the other participants.
            let row = load_job(tx, id).await?;
            Box::pin(hold::lift_dataset(ctx, tx, by, row, dataset)).await?;
        }
    }
    Ok(changed)
}

/// Runs the reactions after the transaction of [`withdraw`].
pub(super) async fn clean_up(ctx: &Ctx, jobs: &BTreeSet<JobId>) {
    for id in jobs {
        react::after_job_change(ctx, *id).await;
    }
}

/// Returns a violation for each dataset of a proposal with a retired worker or organization.
///
/// # Errors
/// When the database fails.
pub(crate) async fn violations(
    tx: &Tx,
    consortium: ConsortiumId,
    datasets: impl IntoIterator<Item = Uuid>,
) -> Result<Vec<Violation>, Error> {
    let mut violations = Vec::new();
    for row in dataset::Entity::find().filter(dataset::Column::Id.is_in(datasets)).all(tx).await? {
        let joined = membership::Entity::find_by_id((consortium.0, row.organization_id)).one(tx).await?;
        let owner = organization::Entity::find_by_id(row.organization_id).one(tx).await?.map(|row| row.name);
        let owner = owner.unwrap_or_default();
        if joined.is_none_or(|joined| joined.retired_at.is_some()) {
            let message = format!("{owner} is retired from the consortium: leave out its dataset {:?}", row.name);
            violations.push(Violation::new("spec", message));
            continue;
        }
        let holder = worker::Entity::find_by_id(row.worker_id).one(tx).await?;
        if holder.is_none_or(|holder| holder.retired_at.is_some()) {
            let message = format!(
                "the worker of the dataset {:?} of {owner} is retired: leave the dataset out, or have {owner} restore or replace the worker",
                row.name
            );
            violations.push(Violation::new("spec", message));
        }
    }
    Ok(violations)
}
