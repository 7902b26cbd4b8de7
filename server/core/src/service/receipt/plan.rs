//! The releases that a manifest plans for a participant, and the comparison of a receipt with them.

use std::sync::Arc;

use sea_orm::{ConnectionTrait, EntityTrait as _};
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::signed::Receipt;

use super::PlannedRelease;
use crate::ctx::{Ctx, PartPlan, SeriesPlan};
use crate::error::Error;
use crate::model::{job, participant};
use crate::service::question;

/// Returns what a job's manifest plans for a dataset; `None` when they do not belong together.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(super) async fn find(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    job: JobId,
    dataset: DatasetId,
) -> Result<Option<Arc<PartPlan>>, Error> {
    if let Some(plan) = ctx.part_plans().get((job, dataset)) {
        return Ok(Some(plan));
    }
    let Some(row) = job::Entity::find_by_id(job.0).one(connection).await? else { return Ok(None) };
    let part = participant::Entity::find_by_id((job.0, dataset.0)).one(connection).await?;
    let Some(part) = part else { return Ok(None) };
    let plan = Arc::new(read(&row, &part, dataset));
    // A job that is not yet running may be rolled back with the transaction that reads it.
    if row.started_at.is_some() {
        ctx.part_plans().keep((job, dataset), Arc::clone(&plan));
    }
    Ok(Some(plan))
}

/// Reads a plan from its rows. What it takes of both is written once, when the job is proposed.
fn read(row: &job::Model, part: &participant::Model, dataset: DatasetId) -> PartPlan {
    let series = row.series.iter().filter_map(|planned| {
        let event = planned.release_of(dataset)?.clone();
        Some(SeriesPlan { name: planned.series.name.clone(), rounds: planned.series.rounds, event })
    });
    // A pool of questions is the whole charge of its participant, once. So is a release to a recipient outside of the consortium,
    // which is never sent to this server.
    let pool = question::read_plan(row).filter(|questions| questions.asking.contains(&dataset));
    let outside = row.spec.external_release().filter(|outside| outside.sending.contains(&dataset));
    PartPlan {
        manifest: row.digest.clone(),
        worker: part.worker_id.into(),
        lineage: part.lineage_id.into(),
        charge: part.charge.as_deref().cloned(),
        series: series.collect(),
        once: pool.map(|pool| pool.series).into_iter().chain(outside.map(|outside| outside.series)).collect(),
    }
}

/// Compares a receipt with the plan of its job and dataset.
///
/// # Errors
/// The difference.
pub(super) fn compare(plan: &PartPlan, worker: WorkerId, receipt: &Receipt) -> Result<PlannedRelease, &'static str> {
    if receipt.worker != worker {
        return Err("the receipt is another worker's");
    }
    if plan.manifest != receipt.manifest {
        return Err("the receipt was made under another manifest");
    }
    if plan.worker != worker || plan.lineage != receipt.lineage {
        return Err("the receipt names a dataset that the manifest gives to another worker or lineage");
    }
    let Some(charge) = &plan.charge else {
        return Err("the manifest charges nothing for this dataset");
    };
    if (charge.unit, charge.adjacency) != (receipt.unit, receipt.adjacency) {
        return Err("the receipt is for another privacy unit than the manifest");
    }
    let is_charged = charge.event == receipt.event;
    let planned = plan.series.iter().find(|planned| planned.name == receipt.series).is_some_and(|planned| {
        planned.event == receipt.event
            && (1..=planned.rounds).contains(&receipt.round)
            // A round of releases that are charged together is released once.
            && if receipt.event.whole_releases().is_some() { receipt.attempt == 1 } else { receipt.attempt >= 1 }
    });
    let once = || plan.once.contains(&receipt.series) && is_charged && receipt.round == 1 && receipt.attempt >= 1;
    match (planned || once(), is_charged) {
        (false, _) => Err("the receipt's release is not the one that the manifest foresees"),
        (true, true) => Ok(PlannedRelease::Charged),
        (true, false) => Ok(PlannedRelease::Beside),
    }
}
