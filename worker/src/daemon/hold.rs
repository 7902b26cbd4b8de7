//! Holds of running parts: a held part stops, and the server is notified, so that no deadline expires meanwhile.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::SiteHold;

use super::Site;
use super::departure::departure_reason;
use super::lease::Lease;
use crate::site::admission::ExaminedManifest;
use crate::site::holds::{self, HoldOrigin, StoredHold};
use crate::site::store::StoreError;

/// The period of the search for holds made at the terminal.
const LOOK: Duration = Duration::from_secs(1);

/// The reason of a waiting part, for other participants to read.
pub(super) const WAITS: &str = "the site's steward must approve it at the site's terminal";

/// Records that a part waits for an answer at the terminal, unless it is held, and queues the notification of the
/// server.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn record_wait(
    site: &Site,
    manifest: &str,
    job: JobId,
    dataset: DatasetId,
    reason: &str,
) -> Result<(), StoreError> {
    if let Some(hold) = holds::current_hold(&site.store, job, dataset)? {
        // The server offers it, so it does not know of the hold, or no longer does.
        return holds::resend(&site.store, hold.id);
    }
    let statement = SiteHold {
        manifest: manifest.to_owned(),
        job,
        dataset,
        hold: true,
        reason: reason.to_owned(),
        at: (site.clock)(),
    };
    holds::record(&site.store, &statement, HoldOrigin::Worker)
}

/// Returns whether a part is held. If `is_answered`, a hold that waited for the answer alone ends.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn update_hold(site: &Site, examined: &ExaminedManifest, is_answered: bool) -> Result<bool, StoreError> {
    let Some(hold) = holds::current_hold(&site.store, examined.manifest.job, examined.dataset.id)? else {
        return Ok(false);
    };
    if is_answered && hold.by == HoldOrigin::Worker.word() {
        let statement = SiteHold { hold: false, reason: String::new(), at: (site.clock)(), ..hold.word };
        holds::record(&site.store, &statement, HoldOrigin::Worker)?;
        return Ok(false);
    }
    Ok(true)
}

/// Sends every hold that the server has not received, oldest first.
pub(super) async fn send_holds(site: &Site) {
    let pending = match holds::pending_statements(&site.store) {
        Ok(pending) => pending,
        Err(error) => return tracing::error!(error = %error, "cannot read the pending holds"),
    };
    for StoredHold { id, word, by } in pending {
        let signed = match site.key.sign(&word) {
            Ok(signed) => signed,
            Err(error) => return tracing::error!(error = %error, "cannot sign a hold"),
        };
        match site.gateway.hold(&signed).await {
            Ok(()) => tracing::info!(job.id = %word.job, hold = word.hold, by, "the server has received a hold"),
            Err(error) if error.is_transient() => return,
            // The job is not active at the server: if it is offered here, the hold is sent again.
            Err(error) => tracing::warn!(job.id = %word.job, error = %error, "the server rejects a hold"),
        }
        if let Err(error) = holds::acknowledge(&site.store, id) {
            return tracing::error!(error = %error, "cannot mark hold {id} as acknowledged");
        }
    }
}

/// Stops a part when the site's terminal holds the job or leaves it, even if the server cannot be notified. Ends with the lease.
pub(super) async fn stop_when_held(
    site: &Site,
    lease: &Lease,
    job: JobId,
    dataset: DatasetId,
    start: &CancellationToken,
) {
    tokio::select! {
        () = start.cancelled() => {}
        () = lease.stop.cancelled() => return,
    }
    while !lease.stop.is_cancelled() {
        match departure_reason(site, job, dataset) {
            Ok(Some(reason)) => {
                tracing::info!(job.id = %job, dataset.id = %dataset, reason, "the run stops");
                lease.end_for_good(reason);
                return;
            }
            Ok(None) => {}
            Err(error) => tracing::error!(error = %error, "cannot read the departures"),
        }
        match holds::current_hold(&site.store, job, dataset) {
            Ok(Some(hold)) => {
                tracing::info!(job.id = %job, dataset.id = %dataset, by = hold.by, "the run stops because this site holds the job");
                lease.put_down(format!("this site holds the job: {}", hold.word.reason));
            }
            Ok(None) => {}
            Err(error) => tracing::error!(error = %error, "cannot read the holds"),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = lease.stop.cancelled() => return,
        }
    }
}
