//! Holds at work: what is held here is put down, and the server is told, so that nobody's deadline runs meanwhile.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::SiteHold;

use super::Site;
use super::lease::Lease;
use crate::site::admission::Examined;
use crate::site::holds::{self, Held, Holder};
use crate::site::store::StoreError;

/// How often is looked whether somebody at the terminal holds what runs.
const LOOK: Duration = Duration::from_secs(1);

/// Why a held part waits, for others to read.
pub(super) const WAITS: &str = "the site's steward has to approve it at the site's terminal";

/// Notes that a part waits for an answer at the terminal, if nobody holds it already, and sees to it that the server is told.
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
    if let Some(held) = holds::held(&site.store, job, dataset)? {
        // Whoever offers it does not know, or knows no more.
        return holds::tell_again(&site.store, held.id);
    }
    let (manifest, reason) = (manifest.to_owned(), reason.to_owned());
    let word = SiteHold { manifest, job, dataset, hold: true, reason, at: (site.clock)() };
    holds::say(&site.store, &word, Holder::Worker)
}

/// Whether a part is held, now that it is `answered` or not: what waited for an answer alone goes on with it.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn after(site: &Site, examined: &Examined, answered: bool) -> Result<bool, StoreError> {
    let (job, dataset) = (examined.manifest.job, examined.dataset.id);
    let Some(held) = holds::held(&site.store, job, dataset)? else { return Ok(false) };
    if answered && held.by == Holder::Worker.word() {
        let word = SiteHold { hold: false, reason: String::new(), at: (site.clock)(), ..held.word };
        holds::say(&site.store, &word, Holder::Worker)?;
        return Ok(false);
    }
    Ok(true)
}

/// Tells the server every word that it does not know, oldest first.
pub(super) async fn tell(site: &Site) {
    let waiting = match holds::untold(&site.store) {
        Ok(waiting) => waiting,
        Err(error) => return tracing::error!(error = %error, "holds could not be read"),
    };
    for Held { id, word, by } in waiting {
        let signed = match site.key.sign(&word) {
            Ok(signed) => signed,
            Err(error) => return tracing::error!(error = %error, "a hold could not be signed"),
        };
        match site.gateway.hold(&signed).await {
            Ok(()) => tracing::info!(job.id = %word.job, hold = word.hold, by, "hold told"),
            Err(error) if error.is_transient() => return,
            // Nobody is at the job at the server: when it is offered here, the hold is told again.
            Err(error) => tracing::warn!(job.id = %word.job, error = %error, "a hold came to nothing"),
        }
        if let Err(error) = holds::told(&site.store, id) {
            return tracing::error!(error = %error, "a hold could not be noted as told");
        }
    }
}

/// Puts a part down when somebody at the terminal holds it, whether or not the server hears of it. Ends with the lease.
pub(super) async fn watch(site: &Site, lease: &Lease, job: JobId, dataset: DatasetId, begun: &CancellationToken) {
    tokio::select! {
        () = begun.cancelled() => {}
        () = lease.stop.cancelled() => return,
    }
    while !lease.stop.is_cancelled() {
        match holds::held(&site.store, job, dataset) {
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
