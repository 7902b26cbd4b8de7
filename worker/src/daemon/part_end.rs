//! The end of a part: settlement, and its report to the server.

use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::problem::Code;
use undertone_api::signed::Signed;

use super::departure::departure_reason;
use super::{HeldParts, Site, departure, witness};
use crate::fault;
use crate::gateway::{GatewayError, retry_call};
use crate::run;
use crate::site::jobs::{self, RunOutcome, RunRow};
use crate::site::ledger::LedgerError;
use crate::site::outbox::{self, ReleaseOutbox};
use crate::site::store::StoreError;

/// Ends a part: records the outcome, settles, informs the server with the last receipts, and cleans up. Returns true
/// when the server knows.
pub(super) async fn end_part(site: &Site, job: JobId, dataset: DatasetId, lease: &str, outcome: &RunOutcome) -> bool {
    match try_end_part(site, job, dataset, lease, outcome).await {
        Ok(is_acknowledged) => is_acknowledged,
        Err(error) => {
            tracing::error!(job.id = %job, dataset.id = %dataset, error = %error, "cannot record the end of a run");
            false
        }
    }
}

async fn try_end_part(
    site: &Site,
    job: JobId,
    dataset: DatasetId,
    lease: &str,
    outcome: &RunOutcome,
) -> Result<bool, LedgerError> {
    close_part(site, job, dataset, outcome)?;
    let (numbers, receipts) = final_receipts(site)?;
    let Some(countersignatures) = send_end(site, lease, outcome, &receipts).await else { return Ok(false) };
    acknowledge_end(site, job, dataset, &numbers)?;
    witness::store_countersignatures(site, &receipts, &countersignatures).await;
    Ok(true)
}

/// Closes a part at this site: records its outcome, and returns the unpaid rest of its reservation.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails; close it again then.
pub fn close_part(site: &Site, job: JobId, dataset: DatasetId, outcome: &RunOutcome) -> Result<(), LedgerError> {
    // The outcome comes first: after the settlement the run can never resume.
    jobs::record_outcome(&site.store, job, dataset, outcome)?;
    fault::point(fault::BEFORE_SETTLE);
    let releases = site.ledger.settle_job(job, Some(dataset))?;
    fault::point(fault::AFTER_SETTLE);
    tracing::info!(job.id = %job, dataset.id = %dataset, releases, "the ledger settled a reservation");
    Ok(())
}

/// Returns the receipts for the end of a part, with their numbers: all that the server lacks.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn final_receipts(site: &Site) -> Result<(Vec<u64>, Vec<Signed>), StoreError> {
    Ok(outbox::receipts_to_send(&site.store, u64::MAX, None)?.into_iter().unzip())
}

/// Records that the server knows the end of a part and has its receipts, and removes the part's files.
///
/// # Errors
/// [`StoreError`] when the database fails; the end is sent again then.
pub fn acknowledge_end(site: &Site, job: JobId, dataset: DatasetId, receipts: &[u64]) -> Result<(), StoreError> {
    outbox::acknowledge(&site.store, receipts)?;
    jobs::acknowledge_outcome(&site.store, job, dataset)?;
    let folder = site.folder.work(job, dataset);
    if let Err(error) = ReleaseOutbox::new(job, dataset, &folder).clear() {
        tracing::warn!(job.id = %job, error = %error, "cannot remove the vectors of an ended part");
    }
    if let Err(error) = run::forget(&folder) {
        tracing::warn!(job.id = %job, error = %error, "cannot remove the data of an ended part");
    }
    Ok(())
}

/// Sends the end of a part; returns the server's countersignatures if it succeeds.
async fn send_end(site: &Site, lease: &str, outcome: &RunOutcome, receipts: &[Signed]) -> Option<Vec<Signed>> {
    let answer = match (try_send_end(site, lease, outcome, receipts).await, outcome) {
        (Err(error), RunOutcome::Done { .. }) if error.code() != Some(Code::LeaseLost) => {
            tracing::error!(error = %error, "the server rejects the end of a run");
            let gave_up = RunOutcome::GaveUp { reason: format!("the server rejected the result: {error}") };
            try_send_end(site, lease, &gave_up, receipts).await
        }
        (answer, _) => answer,
    };
    match answer {
        Ok(countersignatures) => Some(countersignatures),
        Err(error) => {
            tracing::warn!(error = %error, "cannot send the end of a run");
            None
        }
    }
}

async fn try_send_end(
    site: &Site,
    lease: &str,
    outcome: &RunOutcome,
    receipts: &[Signed],
) -> Result<Vec<Signed>, GatewayError> {
    let stop = CancellationToken::new();
    let answer = retry_call("finish", &stop, || site.gateway.finish(lease, outcome, receipts)).await;
    answer.unwrap_or_else(|| Err(GatewayError::Unreachable("the call was cancelled".to_owned())))
}

/// Asks the server about unfinished runs without a task here, and ends those of finished jobs and of jobs that this site
/// or its steward has left. Sends the ends of stopped runs again that the server has not acknowledged: it does not offer
/// the part of a party that has left.
pub(super) async fn report_orphans(site: &Arc<Site>, parts: &HeldParts) {
    resend_ends(site, parts).await;
    let runs = match jobs::open_runs(&site.store) {
        Ok(runs) => runs,
        Err(error) => return tracing::error!(error = %error, "cannot read the unfinished runs"),
    };
    for (job, dataset, lease) in runs {
        if parts.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&(job, dataset)) {
            continue;
        }
        match departure_reason(site, job, dataset) {
            Ok(Some(reason)) => {
                departure::send_departures(site).await;
                end_part(site, job, dataset, &lease, &RunOutcome::Stopped { reason }).await;
                continue;
            }
            Ok(None) => {}
            Err(error) => return tracing::error!(error = %error, "cannot read the departures"),
        }
        if let Ok(renewal) = site.gateway.renew(&lease).await
            && !renewal.is_active
        {
            tracing::info!(job.id = %job, dataset.id = %dataset, reason = renewal.reason, "the job ended while no task worked on it here");
            end_part(site, job, dataset, &lease, &RunOutcome::Stopped { reason: renewal.reason }).await;
        }
    }
}

/// Sends the unacknowledged ends of stopped runs again, with their last lease.
async fn resend_ends(site: &Site, parts: &HeldParts) {
    let ends = match jobs::unacknowledged_stops(&site.store) {
        Ok(ends) => ends,
        Err(error) => return tracing::error!(error = %error, "cannot read the ended runs"),
    };
    for (job, dataset, RunRow { lease, ended, .. }) in ends {
        let is_held = parts.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&(job, dataset));
        if let Some(outcome) = ended.filter(|_| !is_held) {
            end_part(site, job, dataset, &lease, &outcome).await;
        }
    }
}
