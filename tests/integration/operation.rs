//! A server in its operator's hands: watched, stopped, backed up and restored, doubled, and with its objects elsewhere.

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

/// The sites with private data.
fn private(sites: &[Site]) -> impl Iterator<Item = &Site> {
    sites.iter().skip(1)
}

/// Looks until it is so.
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
