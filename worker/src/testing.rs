//! Shared parts of this crate's tests, in addition to those of the site.

pub(crate) use undertone_worker_site::testing::*;

use crate::config::queries::Queries;
use crate::config::{Config, ServerEndpoint};
use crate::dp::device::Compute;

/// Returns the configuration of a site with a server on this machine.
pub(crate) fn config() -> Config {
    Config {
        server: ServerEndpoint::new("http://127.0.0.1:8421", None).expect("it is on loopback"),
        server_key: server_key().verifying_key(),
        worker: WORKER,
        worker_name: "north".to_owned(),
        organization: ORGANIZATION,
        organization_name: "North Hospital".to_owned(),
        concurrent_runs: 4,
        rotate_key_days: 365,
        anchor: None,
        compute: Compute::default(),
        queries: Queries::default(),
        transcription: crate::config::transcription::TranscriptionSettings::default(),
        programs: crate::speech::sandbox::Programs::default(),
    }
}
