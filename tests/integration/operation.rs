//! Operation of a server: monitoring, shutdown, backup and restoration, replicas, and an external object store.

mod backup;
mod doctor;
mod recovery;
mod replicas;
mod store;
mod traces;
mod upgrade;
mod watch;

use std::time::{Duration, Instant};

use support::stage::{PATIENCE, Site, Staged};

/// Returns the sites with private data.
fn private(sites: &[Site]) -> impl Iterator<Item = &Site> {
    sites.iter().skip(1)
}

/// Polls until the condition holds.
async fn until(what: &str, is_so: impl Fn() -> bool) -> Staged<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            return Err(format!("within {} seconds it was not so: {what}", PATIENCE.as_secs()).into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
