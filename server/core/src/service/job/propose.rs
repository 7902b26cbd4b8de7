//! The proposal of a job: every violation is reported, the budgets are checked at once, and the manifest is signed
//! before any owner must approve it.

use std::collections::BTreeMap;

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use serde_json::json;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, JobId, LineageId, OrganizationId};
use undertone_api::job::{DatasetUse, Job, JobState, NewJob};
use undertone_api::member::check_name;
use undertone_api::problem::{Code, Problem, Violation};
use undertone_api::signed::{JobLimits, Manifest, ManifestParticipant, ModelOrigin};

use super::lapse::answer_by;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::participant::{ApprovalState, PartState};
use crate::model::planned_series::PlannedSeries;
use crate::model::{draft, job, participant, worker};
use crate::service::approval::limit;
use crate::service::audit_log::{AuditAction, NewAuditEntry, record};
use crate::service::job::{refused, state};
use crate::service::model::deletion;
use crate::service::model::initial::{self, ResolvedProposal};
use crate::service::retirement::parts as retired_datasets;
use crate::service::{dataset, ledger, notification, restoration};
use crate::view::job as view;

/// Proposes a job to the owners of its datasets. A job that needs no approval is reserved and queued at once.
///
/// # Errors
/// `validation_failed` with every violation, `budget_missing` or `budget_exceeded` with the figures of every account
/// that would refuse.
pub async fn propose(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId, new: NewJob) -> Result<Job, Error> {
    policy::check(actor, Operation::ProposeJob, Place::Consortium(consortium))?;
    // A large future, so it is on the heap.
    Box::pin(submit(ctx, actor, consortium, new, ProposalOrigin::Nothing)).await
}

/// The origin of a proposed job.
#[derive(Debug, Clone, Copy)]
pub(super) enum ProposalOrigin<'a> {
    /// A new job.
    Nothing,
    /// A draft, which is deleted.
    Draft(&'a draft::Model),
    /// Another job, which this one repeats.
    Job(JobId),
}

/// Proposes a job of any origin. The caller has checked the policy.
pub(super) async fn submit(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    new: NewJob,
    before: ProposalOrigin<'_>,
) -> Result<Job, Error> {
    let datasets = dataset::in_consortium(ctx.db.read(), consortium).await?;
    let ResolvedProposal { job: new, origin, violations: unusable } =
        initial::resolve(ctx, actor, consortium, new, &datasets).await?;
    let mut violations = violations(&new, &datasets);
    violations.extend(unusable);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let new = NewJob { spec: new.spec.settle(&datasets), ..new };
    let (row, parts) = rows(ctx, actor, consortium, (&new, origin), &datasets).await?;
    let refusals = ledger::check(ctx.db.read(), &state::asks(&parts)).await?;
    if !refusals.is_empty() {
        let missing = refusals.iter().any(|refusal| refusal.limit <= 0.0);
        let code = if missing { Code::BudgetMissing } else { Code::BudgetExceeded };
        let message = refused::in_words(&refusals, &datasets);
        return Err(Problem { refusals, ..Problem::new(code, message) }.into());
    }
    let row = ctx
        .db
        .write("propose job", async |tx| {
            // In the transaction: a retirement may have happened in between.
            let retired = retired_datasets::violations(tx, consortium, row_datasets(&parts)).await?;
            if !retired.is_empty() {
                return Err(Error::validation(retired));
            }
            let deleted = deletion::violations(tx, consortium, &new.spec).await?;
            if !deleted.is_empty() {
                return Err(Error::validation(deleted));
            }
            let unreconciled = restoration::violations(tx, &row_datasets(&parts)).await?;
            if !unreconciled.is_empty() {
                return Err(Error::validation(unreconciled));
            }
            if let ProposalOrigin::Draft(drafted) = before {
                super::draft::spend(tx, drafted).await?;
            }
            let row = row.clone().into_active_model().insert(tx).await?;
            for part in &parts {
                part.clone().into_active_model().insert(tx).await?;
            }
            let act = NewAuditEntry {
                by: actor.into(),
                what: AuditAction::JobProposed,
                place: Place::Consortium(consortium),
                subject: Some(("job", row.id.to_string())),
                detail: json!({ "kind": row.kind, "manifest": row.digest }),
            };
            record(ctx, tx, act).await?;
            if let ProposalOrigin::Job(of) = before {
                let act = NewAuditEntry {
                    by: actor.into(),
                    what: AuditAction::JobRetried,
                    place: Place::Consortium(consortium),
                    subject: Some(("job", row.id.to_string())),
                    detail: json!({ "of": of }),
                };
                record(ctx, tx, act).await?;
            }
            limit::apply(ctx, tx, &row).await?;
            notification::job::proposed(ctx, tx, &row).await?;
            Box::pin(state::admit(ctx, tx, actor.into(), row)).await
        })
        .await?;
    tracing::info!(job.id = %row.id, job.kind = row.kind, "a job was proposed");
    ctx.changes().notify();
    view::view_job(ctx, actor, row).await
}

/// Returns every violation of a proposal.
pub(crate) fn violations(new: &NewJob, datasets: &[Dataset]) -> Vec<Violation> {
    let mut violations = new.spec.check(datasets);
    check_name("title", &new.title, &mut violations);
    violations.extend(shared_accounts(new, datasets));
    violations
}

/// Returns the violation of a job that would charge two datasets of one lineage: the same people would take part twice,
/// and a site reserves once for a job.
fn shared_accounts(new: &NewJob, datasets: &[Dataset]) -> Option<Violation> {
    let mut accounts: BTreeMap<(OrganizationId, LineageId), &Dataset> = BTreeMap::new();
    let uses = new.spec.datasets();
    let participants = uses.iter().filter_map(|(id, _)| datasets.iter().find(|dataset| dataset.id == *id));
    participants.filter(|dataset| new.spec.cost(dataset).is_some()).find_map(|dataset| {
        let other = accounts.insert((dataset.organization, dataset.lineage), dataset)?;
        let (organization, one, two) = (&dataset.organization_name, &other.name, &dataset.name);
        let message = format!(
            "{one:?} and {two:?} of {organization} are charged to the same accounts, because they hold the same data or people: take one of \
             them"
        );
        (other.id != dataset.id).then(|| Violation::new("spec", message))
    })
}

fn row_datasets(parts: &[participant::Model]) -> Vec<uuid::Uuid> {
    parts.iter().map(|part| part.dataset_id).collect()
}

async fn rows(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    (new, initial_model): (&NewJob, Option<ModelOrigin>),
    datasets: &[Dataset],
) -> Result<(job::Model, Vec<participant::Model>), Error> {
    let (id, title, spec) = (ctx.id::<JobId>(), new.title.trim().to_owned(), &new.spec);
    let used: Vec<(&Dataset, DatasetUse)> = spec
        .datasets()
        .into_iter()
        .filter_map(|(id, purpose)| Some((datasets.iter().find(|dataset| dataset.id == id)?, purpose)))
        .collect();
    let mut participants: Vec<_> = used.iter().map(|(dataset, purpose)| entry(new, dataset, *purpose)).collect();
    let planned = PlannedSeries::from_spec(spec, datasets);
    state_keys(ctx, &planned, &mut participants).await?;
    let manifest = Manifest {
        job: id,
        consortium,
        title: title.clone(),
        proposed_by: actor.member.name.clone(),
        spec: spec.clone(),
        // Participants with another form of data fail the check above.
        model: used.first().and_then(|(lead, _)| spec.model(lead.inputs)),
        initial_model,
        limits: Some(JobLimits::from_spec(spec, &participants, ctx.now())),
        participants,
        proposal: None,
        issued_at: ctx.now(),
    };
    let signed = ctx.signer.sign(&manifest).await.map_err(|error| Error::internal("signing a manifest", error))?;
    let questions = spec.questions();
    let rounds: u64 = planned.iter().map(|planned| u64::from(planned.series.rounds)).sum();
    let rounds = rounds + questions.as_ref().map_or(0, |questions| u64::from(questions.rounds));
    let row = job::Model {
        id: id.0,
        consortium_id: consortium.0,
        title,
        kind: spec.kind().to_owned(),
        spec: JsonColumn::new(spec.clone())?,
        series: JsonColumn::new(planned)?,
        state: JobState::Proposed.into(),
        digest: signed.digest(),
        manifest: signed.payload,
        signature: signed.signature,
        proposer_id: actor.id().0,
        proposed_by: actor.member.name.clone(),
        rounds_done: 0,
        rounds: i32::try_from(rounds).map_err(|error| Error::internal("counting rounds", error))?,
        reason: None,
        refusals: JsonColumn::new(Vec::new())?,
        report: None,
        created_at: ctx.now(),
        started_at: None,
        finished_at: None,
        asks: questions.is_some(),
        answer_by: Some(answer_by(ctx)),
        not_after: manifest.limits.as_ref().map(|limits| limits.not_after),
        paused_at: None,
        paused_for: 0,
    };
    let parts = (0..)
        .zip(&manifest.participants)
        .zip(&used)
        .map(|((position, entry), (dataset, _))| participant_row(id, position, entry, dataset))
        .collect::<Result<_, _>>()?;
    Ok((row, parts))
}

fn entry(new: &NewJob, dataset: &Dataset, purpose: DatasetUse) -> ManifestParticipant {
    ManifestParticipant {
        dataset: dataset.id,
        dataset_name: dataset.name.clone(),
        lineage: dataset.lineage,
        organization: dataset.organization,
        organization_name: dataset.organization_name.clone(),
        worker: dataset.worker,
        purpose,
        units: new.spec.units(dataset),
        charge: new.spec.cost(dataset),
        site_key: None,
    }
}

/// States the present key of each site whose vectors are added under masks.
async fn state_keys(
    ctx: &Ctx,
    planned: &[PlannedSeries],
    participants: &mut [ManifestParticipant],
) -> Result<(), Error> {
    let is_member = |id| planned.iter().filter_map(|one| one.series.masked.as_ref()).any(|of| of.index(id).is_some());
    for party in participants.iter_mut().filter(|party| is_member(party.dataset)) {
        let row = worker::Entity::find_by_id(party.worker.0).one(ctx.db.read()).await?;
        let row = row.ok_or_else(|| Error::internal("stating a site's key", "its worker is unknown"))?;
        party.site_key = Some(row.public_key);
    }
    Ok(())
}

fn participant_row(
    job: JobId,
    position: i32,
    entry: &ManifestParticipant,
    dataset: &Dataset,
) -> Result<participant::Model, Error> {
    let approval =
        if dataset.visibility == Visibility::Public { ApprovalState::NotNeeded } else { ApprovalState::Pending };
    Ok(participant::Model {
        job_id: job.0,
        dataset_id: dataset.id.0,
        position,
        lineage_id: dataset.lineage.0,
        organization_id: dataset.organization.0,
        worker_id: dataset.worker.0,
        dataset_name: dataset.name.clone(),
        organization_name: dataset.organization_name.clone(),
        visibility: dataset.visibility.into(),
        purpose: entry.purpose.into(),
        charge: entry.charge.clone().map(JsonColumn::new).transpose()?,
        approval: approval.into(),
        approval_by: None,
        approval_reason: None,
        steward_approved: false,
        limit_id: None,
        site_answered: false,
        consent: None,
        state: PartState::Waiting.into(),
        releases: 0,
    })
}
