//! `[queries]` of the configuration: the engine that counts the query logs of this site, and its bounds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use undertone_worker_site::config::{ConfigError, field, host, is_loopback};

/// Least memory for counting, MiB. The engine needs some for each of its parts before it can write to disk.
pub const LEAST_MEMORY: u32 = 32;

/// The engine that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// DataFusion in the worker's process (a worker built with `datafusion`, as by default).
    #[default]
    Embedded,
    /// A cluster of Ballista of the site's own (a worker built with `cluster`).
    Cluster,
}

/// Settings of counting query logs.
///
/// ```toml
/// [queries]
/// engine = "cluster"
/// scheduler = "df://scheduler.internal:50050"
/// shared = "/mnt/undertone"     # a folder that every executor sees under this very path
/// private_network = true        # Ballista speaks plain text: no other party can listen there
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queries {
    /// The engine that counts.
    pub engine: EngineKind,
    /// The scheduler of the cluster, `df://host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// A folder that the worker and every executor see under the same path. It holds candidates while the engine counts
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<PathBuf>,
    /// The site's statement that it alone controls the network between worker, scheduler and executors, so that queries
    /// may cross it in plain text.
    pub private_network: bool,
    /// Memory that counting in the worker may take before it spills to disk, MiB.
    pub memory_mib: u32,
    /// Disk that counting in the worker may take, MiB.
    pub spill_mib: u32,
    /// Number of tasks into which a cluster divides the work; 0: 16. The worker itself counts in one task.
    pub tasks: usize,
}

impl Default for Queries {
    fn default() -> Self {
        Self {
            engine: EngineKind::Embedded,
            scheduler: None,
            shared: None,
            private_network: false,
            memory_mib: 512,
            spill_mib: 100 * 1024,
            tasks: 0,
        }
    }
}

impl Queries {
    /// Checks the values that the types do not constrain.
    ///
    /// # Errors
    /// [`ConfigError::Field`] naming the field and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.memory_mib < LEAST_MEMORY {
            return Err(field("queries.memory_mib", format!("at least {LEAST_MEMORY}, not {}", self.memory_mib)));
        }
        if self.spill_mib == 0 {
            return Err(field("queries.spill_mib", "at least 1: counts that do not fit into memory go on on disk"));
        }
        match self.engine {
            EngineKind::Embedded => Ok(()),
            EngineKind::Cluster => self.cluster().map(drop),
        }
    }

    /// Returns the scheduler's address, `df://host:port`, and the shared folder.
    ///
    /// # Errors
    /// [`ConfigError::Field`] when one is missing, or when queries would cross a foreign network in plain text.
    pub fn cluster(&self) -> Result<(&str, &std::path::Path), ConfigError> {
        let scheduler = self
            .scheduler
            .as_deref()
            .ok_or_else(|| field("queries.scheduler", "a cluster is reached by its address: write df://host:port"))?;
        let host = scheduler
            .strip_prefix("df://")
            .and_then(|authority| host(authority.trim_end_matches('/')))
            .ok_or_else(|| field("queries.scheduler", format!("`{scheduler}` is not df://host:port")))?;
        if !is_loopback(host) && !self.private_network {
            return Err(field(
                "queries.private_network",
                format!(
                    "Ballista speaks plain text, and `{scheduler}` is another machine: queries would travel in the clear. \
                     Keep the cluster on a network of your own (or under WireGuard) and write `private_network = true`"
                ),
            ));
        }
        let shared = self.shared.as_deref().filter(|shared| shared.is_absolute()).ok_or_else(|| {
            field(
                "queries.shared",
                "executors read candidates from a folder they share with the worker: write its absolute path",
            )
        })?;
        Ok((scheduler, shared))
    }
}

#[cfg(test)]
mod tests {
    use super::{EngineKind, Queries};

    fn read(text: &str) -> Result<Queries, String> {
        let queries: Queries = toml::from_str(text).map_err(|error| error.to_string())?;
        queries.check().map_err(|error| error.to_string())?;
        Ok(queries)
    }

    #[test]
    fn empty_configuration_is_the_default() {
        assert_eq!(read(""), Ok(Queries::default()));
        assert_eq!(Queries::default().engine, EngineKind::Embedded);
    }

    #[test]
    fn invalid_setting_names_its_field() {
        for (text, named) in [
            ("memory_mib = 1", "queries.memory_mib"),
            ("spill_mib = 0", "queries.spill_mib"),
            ("engine = \"cluster\"", "queries.scheduler"),
            ("engine = \"cluster\"\nscheduler = \"localhost:50050\"", "queries.scheduler"),
            ("engine = \"cluster\"\nscheduler = \"df://localhost:50050\"", "queries.shared"),
            ("engine = \"cluster\"\nscheduler = \"df://localhost:50050\"\nshared = \"here\"", "queries.shared"),
            ("engine = \"spark\"", "engine"),
            ("memory = 512", "memory"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn cluster_on_foreign_network_is_refused() {
        let elsewhere = "engine = \"cluster\"\nscheduler = \"df://scheduler:50050\"\nshared = \"/mnt/undertone\"\n";
        assert!(read(elsewhere).expect_err("plain text").contains("queries.private_network"));
        assert!(read(&format!("{elsewhere}private_network = true")).is_ok());
        assert!(read(&elsewhere.replace("scheduler:", "127.0.0.1:")).is_ok());
    }
}
