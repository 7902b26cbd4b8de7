//! Departures of this site: the server is notified, and the part of a job that the site has left ends here.

use undertone_api::id::{DatasetId, JobId};

use super::Site;
use crate::site::departures;
use crate::site::store::StoreError;

/// Returns the reason for which this site has left a job, for other participants to read; `None` if it has not.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn departure_reason(site: &Site, job: JobId, dataset: DatasetId) -> Result<Option<String>, StoreError> {
    let departure = departures::departure(&site.store, job, dataset)?;
    Ok(departure.map(|departure| format!("this site has left the job: {}", departure.reason)))
}

/// Sends every departure that the server has not received, oldest first.
pub(super) async fn send_departures(site: &Site) {
    let pending = match departures::pending_departures(&site.store) {
        Ok(pending) => pending,
        Err(error) => return tracing::error!(error = %error, "cannot read the pending departures"),
    };
    for departure in pending {
        let signed = match site.key.sign(&departure) {
            Ok(signed) => signed,
            Err(error) => return tracing::error!(error = %error, "cannot sign a departure"),
        };
        match site.gateway.leave(&signed).await {
            Ok(()) => tracing::info!(job.id = %departure.job, "the server has received a departure"),
            Err(error) if error.is_transient() => return,
            // The job is over, or its part here has ended: nobody waits for this site.
            Err(error) => tracing::warn!(job.id = %departure.job, error = %error, "the server rejects a departure"),
        }
        if let Err(error) = departures::acknowledge(&site.store, departure.job, departure.dataset) {
            return tracing::error!(error = %error, "cannot mark a departure as acknowledged");
        }
    }
}
