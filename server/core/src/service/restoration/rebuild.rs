//! The reconstruction of a job that the restored database lacks, or has in an earlier state, as far as a site's
//! receipts need it. The row comes from the manifest that this server signed, as an ended job, with the reservation of
//! the site's dataset.
//!
//! A job with lost receipts never continues: the server does not know its rounds. Its reservations are held until each
//! site has ended its part.

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{DatasetId, WorkerId};
use undertone_api::job::{JobState, JobStep};
use undertone_api::problem::Code;
use undertone_api::signed::{Manifest, Signed};

use super::newest;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::{ColumnEnum, JsonColumn};
use crate::model::participant::{ApprovalState, PartState};
use crate::model::planned_series::PlannedSeries;
use crate::model::{job, lease, membership, participant};
use crate::rule::job::load_job;
use crate::service::audit_log::AuditAuthor;
use crate::service::job::refused;
use crate::service::job::state;
use crate::service::{dataset, ledger, terms};

/// The reason of the end of a job with lost receipts.
const REASON: &str = "the server was restored to a state from before some of its releases";

/// Ensures that the job of `manifest` exists and is over, and that the charge of `caller`'s dataset is reserved.
///
/// # Errors
/// `bad_signature` when the manifest gives the dataset to another worker, `budget_exceeded` when the limit in force
/// does not admit the former reservation.
pub(super) async fn rebuild_part(
    ctx: &Ctx,
    tx: &Tx,
    caller: WorkerId,
    signed: &Signed,
    manifest: &Manifest,
    own: DatasetId,
) -> Result<(), Error> {
    let is_own = manifest.participants.iter().any(|party| (party.dataset, party.worker) == (own, caller));
    if !is_own {
        return Err(Error::problem(Code::BadSignature, "the manifest gives the dataset to another worker"));
    }
    let datasets = dataset::in_consortium(tx, manifest.consortium).await?;
    if job::Entity::find_by_id(manifest.job.0).one(tx).await?.is_none() {
        insert_job(ctx, tx, signed, manifest, &datasets).await?;
    }
    let row = load_job(tx, manifest.job).await?;
    let digest = signed.digest();
    let row = if row.digest != digest && manifest.approved_digest(&digest) == row.digest {
        // The restored state has the proposal; the parties had answered since.
        terms::store_final(tx, row, signed.clone(), manifest.spec.clone(), &datasets).await?
    } else {
        row
    };
    if row.digest != digest {
        return Err(Error::problem(Code::BadSignature, "the job has another manifest"));
    }
    let part = participant::Entity::find_by_id((row.id, own.0)).one(tx).await?;
    let part = part.ok_or_else(|| Error::not_found("dataset"))?;
    hold_lease(ctx, tx, caller, &part).await?;
    let is_reserved = part.charge.is_none() || ledger::find_reservation(tx, row.id, own.0).await?.is_some();
    if !is_reserved {
        let refusals = ledger::reserve(ctx, tx, row.id, &state::asks(std::slice::from_ref(&part))).await?;
        if !refusals.is_empty() {
            let detail = format!(
                "a limit was set lower than what this site has spent since: {}. Set it again to at least its former value",
                refused::in_words(&refusals, &datasets)
            );
            return Err(Error::problem(Code::BudgetExceeded, detail));
        }
    }
    // A part that was not begun in the restored state is offered until its worker has accounted for it.
    if part.charge.is_some() && (!is_reserved || part.state == PartState::Waiting) {
        let part = participant::Model { state: PartState::Running.into(), ..part };
        part.into_active_model().reset_all().update(tx).await?;
    }
    let end = match *row.state {
        JobState::Proposed => JobStep::Refuse,
        current if current.is_over() => return Ok(()),
        _ => JobStep::Fail,
    };
    state::step(ctx, tx, AuditAuthor::Worker(caller), row, end, Some(REASON.to_owned())).await?;
    Ok(())
}

/// Ends the caller's part and returns the rest of its reservation.
///
/// # Errors
/// When the database fails.
pub(super) async fn end_part(ctx: &Ctx, tx: &Tx, manifest: &Manifest, own: DatasetId) -> Result<(), Error> {
    let Some(part) = participant::Entity::find_by_id((manifest.job.0, own.0)).one(tx).await? else { return Ok(()) };
    if part.state == PartState::Running {
        let part = participant::Model { state: PartState::Failed.into(), ..part };
        part.into_active_model().reset_all().update(tx).await?;
    }
    ledger::settle(ctx, tx, manifest.job.0, own.0).await
}

/// Stores expired leases for the open charged parts of a worker without a lease: the restored database may lack them.
///
/// # Errors
/// When the database fails.
pub(crate) async fn hold_leases(ctx: &Ctx, tx: &Tx, worker: WorkerId) -> Result<(), Error> {
    if newest(tx).await?.is_none() {
        return Ok(());
    }
    let open = participant::Entity::find()
        .filter(participant::Column::WorkerId.eq(worker.0))
        .filter(participant::Column::Charge.is_not_null())
        .filter(participant::Column::State.is_in(PartState::OPEN.map(ColumnEnum::to_text)));
    for part in open.all(tx).await? {
        hold_lease(ctx, tx, worker, &part).await?;
    }
    Ok(())
}

/// Stores an expired lease, if there is none: releases may have been made, so the part must not be settled as
/// untouched.
async fn hold_lease(ctx: &Ctx, tx: &Tx, caller: WorkerId, part: &participant::Model) -> Result<(), Error> {
    if lease::Entity::find_by_id((part.job_id, part.dataset_id)).one(tx).await?.is_some() {
        return Ok(());
    }
    let row = lease::Model {
        job_id: part.job_id,
        dataset_id: part.dataset_id,
        worker_id: caller.0,
        token: ctx.random.secret(),
        number: 1,
        granted_at: ctx.now(),
        expires_at: ctx.now(),
    };
    row.into_active_model().insert(tx).await?;
    Ok(())
}

async fn insert_job(
    ctx: &Ctx,
    tx: &Tx,
    signed: &Signed,
    manifest: &Manifest,
    datasets: &[Dataset],
) -> Result<(), Error> {
    for party in &manifest.participants {
        let joined = membership::Entity::find_by_id((manifest.consortium.0, party.organization.0)).one(tx).await?;
        if joined.is_none() {
            let detail = format!("{} is not in the consortium of the lost job", party.organization_name);
            return Err(Error::wrong_state(detail));
        }
    }
    let spec = &manifest.spec;
    let planned = PlannedSeries::from_spec(spec, datasets);
    let questions = spec.questions();
    let rounds: u64 = planned.iter().map(|planned| u64::from(planned.series.rounds)).sum();
    let rounds = rounds + questions.as_ref().map_or(0, |questions| u64::from(questions.rounds));
    let row = job::Model {
        id: manifest.job.0,
        consortium_id: manifest.consortium.0,
        title: manifest.title.clone(),
        kind: spec.kind().to_owned(),
        spec: JsonColumn::new(spec.clone())?,
        series: JsonColumn::new(planned)?,
        state: JobState::Failed.into(),
        digest: signed.digest(),
        manifest: signed.payload.clone(),
        signature: signed.signature.clone(),
        // The manifest contains only the proposer's name.
        proposer_id: uuid::Uuid::nil(),
        proposed_by: manifest.proposed_by.clone(),
        rounds_done: 0,
        rounds: i32::try_from(rounds).map_err(|error| Error::internal("counting rounds", error))?,
        reason: Some(REASON.to_owned()),
        refusals: JsonColumn::new(Vec::new())?,
        report: None,
        created_at: manifest.issued_at,
        started_at: None,
        finished_at: Some(ctx.now()),
        asks: questions.is_some(),
        answer_by: None,
        not_after: manifest.limits.as_ref().map(|limits| limits.not_after),
        paused_at: None,
        paused_for: 0,
    };
    row.into_active_model().insert(tx).await?;
    for (position, party) in (0..).zip(&manifest.participants) {
        let dataset_row = datasets.iter().find(|dataset| dataset.id == party.dataset);
        let visibility = dataset_row.map_or(Visibility::Private, |dataset| dataset.visibility);
        let part = participant::Model {
            job_id: manifest.job.0,
            dataset_id: party.dataset.0,
            position,
            lineage_id: party.lineage.0,
            organization_id: party.organization.0,
            worker_id: party.worker.0,
            dataset_name: party.dataset_name.clone(),
            organization_name: party.organization_name.clone(),
            visibility: visibility.into(),
            purpose: party.purpose.into(),
            charge: party.charge.clone().map(JsonColumn::new).transpose()?,
            approval: ApprovalState::NotNeeded.into(),
            approval_by: None,
            approval_reason: None,
            steward_approved: false,
            limit_id: None,
            site_answered: false,
            consent: None,
            state: PartState::Failed.into(),
            releases: 0,
        };
        part.into_active_model().insert(tx).await?;
    }
    Ok(())
}
