//! The store of vectors and files, and its limits in bytes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ConfigError, is_loopback};

/// The highest value of a limit, GiB: one PiB.
const MOST_GIB: u64 = 1 << 20;

/// Where vectors and files are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `s3://bucket/prefix` for an S3-compatible store, which several replicas need unless they share a disk; the folder
    /// `objects` of `data_dir` when absent.
    pub url: Option<String>,
    /// The store's address, `https://s3.example.org`; made from the region when absent.
    pub endpoint: Option<String>,
    /// The store's region; `us-east-1` when absent.
    pub region: Option<String>,
    /// The key's id.
    pub access_key_id: Option<String>,
    /// The key. Set it in the environment rather than in the file.
    pub secret_access_key: Option<String>,
    /// Whether `endpoint` may begin with `http://` although it is not on this machine: vectors and models then cross the network
    /// in the clear.
    pub insecure: bool,
    /// GiB of the files of one job: 1 to 1048576.
    pub job_gib: u64,
    /// GiB of the files of all jobs that an organization leads: 1 to 1048576.
    pub organization_gib: u64,
    /// Days after which the files of a job that was refused, failed or cancelled are removed: 1 to 3650. Files of finished jobs
    /// stay.
    pub unfinished_days: u32,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: None,
            endpoint: None,
            region: None,
            access_key_id: None,
            secret_access_key: None,
            insecure: false,
            job_gib: 64,
            organization_gib: 1024,
            unfinished_days: 90,
        }
    }
}

impl StoreConfig {
    /// Checks the values against each other and their ranges.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        if self.url.as_ref().is_some_and(|url| !url.starts_with("s3://")) {
            return wrong("store.url", "use s3://bucket/prefix, or leave it out for a folder of data_dir");
        }
        if self.access_key_id.is_some() != self.secret_access_key.is_some() {
            return wrong("store.access_key_id, store.secret_access_key", "give both, or neither");
        }
        if let Some(endpoint) = &self.endpoint {
            let plain = endpoint.starts_with("http://");
            if !plain && !endpoint.starts_with("https://") {
                return wrong("store.endpoint", "begin with https://");
            }
            if plain && !is_loopback(endpoint) && !self.insecure {
                return wrong(
                    "store.endpoint",
                    "begin with https://, or set `store.insecure = true` where the network between is yours alone",
                );
            }
        }
        for (key, gib) in [("store.job_gib", self.job_gib), ("store.organization_gib", self.organization_gib)] {
            if !(1..=MOST_GIB).contains(&gib) {
                return wrong(key, "use 1 to 1048576 GiB");
            }
        }
        if !(1..=3650).contains(&self.unfinished_days) {
            return wrong("store.unfinished_days", "use 1 to 3650");
        }
        Ok(())
    }
}
