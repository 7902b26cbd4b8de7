//! Views of jobs. Every epsilon is that of the job alone at the account's δ, rounded up.

pub mod list;
mod live;
pub mod released;

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::id::JobId;
use undertone_api::job::{Approval, Charge, DatasetUse, Job, JobParticipant, JobState, ParticipantState};
use undertone_privacy::ledger::Balance;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::participant::{ApprovalState, PartState};
use crate::model::{account, job, lease, participant};
use crate::rule::hold::list_holds;
use crate::rule::job::{load_departures, load_participants};
use crate::service::ledger::{self, account as accounts};
use crate::view::diagnosis;

pub(crate) use live::progress;

/// Returns a job in full, with the content that `reader` may see.
pub(crate) async fn view_job(ctx: &Ctx, reader: &Actor, row: job::Model) -> Result<Job, Error> {
    let holds = list_holds(ctx.db.read(), &row).await?;
    let diagnoses = diagnosis::diagnose(ctx, &row).await?;
    let participants = participants(ctx, Some(reader), &row).await?;
    let begins = row.spec.initial_file().is_some();
    let initial_model = if begins { row.manifest()?.initial_model } else { None };
    Ok(Job {
        initial_model,
        diagnoses,
        summary: (&row).into(),
        spec: row.spec.into_value(),
        participants,
        refusals: row.refusals.into_value(),
        report: row.report.map(JsonColumn::into_value),
        manifest: row.digest,
        answer_by: row.answer_by.filter(|_| row.state == JobState::Proposed),
        holds,
        reason: row.reason,
        started_at: row.started_at,
        finished_at: row.finished_at,
    })
}

/// Returns the datasets of a job with their states. The reason for which a steward must answer reveals facts about a
/// limit, so only readers of the owner's limits receive it. Shared views, without a `reader`, omit it.
async fn participants(ctx: &Ctx, reader: Option<&Actor>, row: &job::Model) -> Result<Vec<JobParticipant>, Error> {
    let reads_limits = |owner: Uuid| {
        let place = Place::Organization(owner.into());
        reader.is_some_and(|reader| policy::allows(reader, Operation::ReadApprovalLimit, place))
    };
    let connection = ctx.db.read();
    let parts = load_participants(connection, JobId(row.id)).await?;
    let leases: HashMap<Uuid, lease::Model> = lease::Entity::find()
        .filter(lease::Column::JobId.eq(row.id))
        .all(connection)
        .await?
        .into_iter()
        .map(|lease| (lease.dataset_id, lease))
        .collect();
    let accounts = accounts::of_lineages(connection, parts.iter().map(|part| part.lineage_id).collect()).await?;
    let departures = load_departures(connection, JobId(row.id)).await?;
    let lead = parts.first().cloned();
    let mut views = Vec::new();
    for part in parts {
        let charge = part.charge.as_deref();
        let delta = charge.map(|charge| delta(&accounts, &part, charge)).transpose()?.flatten();
        let epsilon = |releases| ledger::epsilon_alone(charge?, releases, delta?);
        let purpose = *part.purpose;
        // A dataset that is used for evaluation only is at the lead's site.
        let worker = if purpose == DatasetUse::Evaluate { lead.as_ref().unwrap_or(&part) } else { &part };
        views.push(JobParticipant {
            dataset: part.dataset_id.into(),
            organization: part.organization_id.into(),
            visibility: *part.visibility,
            purpose,
            approval: approval(&part),
            asked_because: part
                .approval_reason
                .clone()
                .filter(|_| part.approval == ApprovalState::Pending && reads_limits(part.organization_id)),
            consent: part.consent.as_deref().filter(|_| part.approval == ApprovalState::Approved).cloned(),
            state: standing(ctx, worker, leases.get(&worker.dataset_id), departures.contains_key(&worker.dataset_id)),
            departure: departures.get(&part.dataset_id).cloned(),
            releases: part.releases as u64,
            epsilon_spent: epsilon(part.releases as u64),
            epsilon_reserved: charge.and_then(|charge| epsilon(charge.releases)),
            delta,
            charge: charge.cloned(),
            dataset_name: part.dataset_name,
            organization_name: part.organization_name,
        });
    }
    Ok(views)
}

/// Returns δ of the account that a charge goes to; `None` without a budget.
fn delta(accounts: &[account::Model], part: &participant::Model, charge: &Charge) -> Result<Option<f64>, Error> {
    let own = accounts.iter().find(|account| {
        account.lineage_id == part.lineage_id
            && account.organization_id == part.organization_id
            && account.is_for(charge.unit, charge.adjacency.account())
    });
    let balance: Option<Balance> = own.map(account::Model::balance).transpose()?;
    Ok(balance.and_then(|balance| balance.budget().map(|budget| budget.delta().get())))
}

fn approval(part: &participant::Model) -> Approval {
    let by = part.approval_by.clone().unwrap_or_default();
    match *part.approval {
        ApprovalState::NotNeeded => Approval::NotNeeded,
        ApprovalState::Pending => Approval::Pending,
        ApprovalState::Approved => Approval::Approved { by },
        ApprovalState::Refused => Approval::Refused { by, reason: part.approval_reason.clone().unwrap_or_default() },
    }
}

fn standing(ctx: &Ctx, part: &participant::Model, lease: Option<&lease::Model>, has_left: bool) -> ParticipantState {
    match (*part.state, lease) {
        (PartState::Done | PartState::Failed, _) if has_left => ParticipantState::Left,
        (_, _) if has_left => ParticipantState::Leaving,
        (PartState::Done, _) => ParticipantState::Done,
        (PartState::Leaving, _) => ParticipantState::Leaving,
        (PartState::Failed | PartState::Withdrawn, _) => ParticipantState::Failed,
        (PartState::Running, Some(lease)) if lease.expires_at > ctx.now() => ParticipantState::Running,
        (PartState::Running, _) => ParticipantState::Silent,
        (PartState::Waiting, _) => ParticipantState::Waiting,
    }
}
