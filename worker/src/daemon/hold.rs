//! Holds of running parts: a held part stops, and the server is notified, so that no deadline expires meanwhile.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::SiteHold;

use super::Site;
use super::lease::Lease;
use crate::site::admission::ExaminedManifest;
use crate::site::holds::{self, HoldOrigin, StoredHold};
use crate::site::store::StoreError;

/// The period of the search for holds made at the terminal.
const LOOK: Duration = Duration::from_secs(1);

/// The reason of a waiting part, for other participants to read.
pub(super) const WAITS: &str = "the site's steward has to approve it at the site's terminal";

/// Records that a part waits for an answer at the terminal, unless it is held, and queues the notification of the
/// server.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn wait(
    site: &Site,
    manifest: &str,
    job: JobId,
    dataset: DatasetId,
    reason: &str,
) -> Result<(), StoreError> {
    if let Some(held) = holds::current_hold(&site.store, job, dataset)? {
        // The server offers it, so it does not know of the hold, or no longer does.
        return holds::resend(&site.store, held.id);
    }
    let (manifest, reason) = (manifest.to_owned(), reason.to_owned());
    let word = SiteHold { manifest, job, dataset, hold: true, reason, at: (site.clock)() };
    holds::record(&site.store, &word, HoldOrigin::Worker)
}

/// Returns whether a part is held. If `answered`, a hold that waited for the answer alone ends.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn after(site: &Site, examined: &ExaminedManifest, answered: bool) -> Result<bool, StoreError> {
    let (job, dataset) = (examined.manifest.job, examined.dataset.id);
    let Some(held) = holds::current_hold(&site.store, job, dataset)? else { return Ok(false) };
    if answered && held.by == HoldOrigin::Worker.word() {
        let word = SiteHold { hold: false, reason: String::new(), at: (site.clock)(), ..held.word };
        holds::record(&site.store, &word, HoldOrigin::Worker)?;
        return Ok(false);
    }
    Ok(true)
}

/// Sends every hold that the server has not received, oldest first.
pub(super) async fn tell(site: &Site) {
    let waiting = match holds::pending_statements(&site.store) {
        Ok(waiting) => waiting,
        Err(error) => return tracing::error!(error = %error, "holds could not be read"),
    };
    for StoredHold { id, word, by } in waiting {
        let signed = match site.key.sign(&word) {
            Ok(signed) => signed,
            Err(error) => return tracing::error!(error = %error, "a hold could not be signed"),
        };
        match site.gateway.hold(&signed).await {
            Ok(()) => tracing::info!(job.id = %word.job, hold = word.hold, by, "hold told"),
            Err(error) if error.is_transient() => return,
            // The job is not active at the server: if it is offered here, the hold is sent again.
            Err(error) => tracing::warn!(job.id = %word.job, error = %error, "a hold came to nothing"),
        }
        if let Err(error) = holds::acknowledge(&site.store, id) {
            return tracing::error!(error = %error, "a hold could not be noted as told");
        }
    }
}

/// Stops a part when the site's terminal holds it, even if the server cannot be notified. Ends with the lease.
pub(super) async fn watch(site: &Site, lease: &Lease, job: JobId, dataset: DatasetId, begun: &CancellationToken) {
    tokio::select! {
        () = begun.cancelled() => {}
        () = lease.stop.cancelled() => return,
    }
    while !lease.stop.is_cancelled() {
        match holds::current_hold(&site.store, job, dataset) {
            Ok(Some(held)) => {
                tracing::info!(job.id = %job, dataset.id = %dataset, by = held.by, "the run is put down: this site holds the job");
                lease.put_down(format!("this site holds the job: {}", held.word.reason));
            }
            Ok(None) => {}
            Err(error) => tracing::error!(error = %error, "holds could not be read"),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = lease.stop.cancelled() => return,
        }
    }
}
