//! Exchanges heads of the server's log, and positions of the sites' ledgers, with the peers every [`EVERY`] and before
//! the first offer. The judgement is in `site::witness::peers` and `site::witness::positions`.

use std::time::Duration;

use super::Site;
use crate::site::store::StoreError;
use crate::site::witness::{alarm, peers, positions};

/// Time between two exchanges while the server can be reached.
pub(super) const EVERY: Duration = Duration::from_mins(10);

/// Exchanges heads once and logs the result.
pub(super) async fn exchange_heads(site: &Site) {
    if let Err(error) = try_exchange(site).await {
        tracing::error!(error = %error, "cannot compare the heads of peers");
    }
}

async fn try_exchange(site: &Site) -> Result<(), StoreError> {
    if site.store.read(alarm::open)?.is_some() {
        return Ok(());
    }
    let now = (site.clock)();
    let Some((own, observation)) = peers::observation(&site.store, site.identity.worker, &site.key, now)? else {
        return Ok(());
    };
    let worker = site.identity.worker;
    let position = positions::own_position(&site.store, worker, &site.key, now)?;
    let sightings = positions::sightings(&site.store, worker, &site.key, now)?;
    let relayed = match site.gateway.exchange_heads(&observation, &position, &sightings).await {
        Ok(relayed) => relayed,
        Err(error) => {
            tracing::debug!(error = %error, "the server does not exchange heads; the worker asks again");
            return Ok(());
        }
    };
    let comparison = peers::compare(&site.store, &site.identity.server_key, &own, &relayed, now)?;
    for reason in &comparison.rejected {
        tracing::warn!(reason = %reason.escape_debug(), "the worker rejects a peer's head");
    }
    if let Some(fork) = &comparison.fork {
        tracing::error!(
            problem = %fork,
            "ALARM: the server has shown another site a log that contradicts the log shown here. Nothing leaves this site from now on. `undertone-worker ledger alarm show` prints both heads. Compare them with the other site's operator; then run `undertone-worker ledger alarm clear --reason ...`"
        );
    }
    tracing::debug!(peers = comparison.agreed, "heads of peers agree with this site's");
    if comparison.fork.is_some() {
        return Ok(());
    }
    let comparison = positions::compare(&site.store, worker, &site.key, &relayed, now)?;
    for reason in &comparison.rejected {
        tracing::warn!(reason = %reason.escape_debug(), "the worker rejects a peer's statement about ledgers");
    }
    if let Some(problem) = &comparison.contradiction {
        tracing::error!(problem = %problem, "this site's ledger is an older copy: nothing leaves this site from now on");
    }
    Ok(())
}
