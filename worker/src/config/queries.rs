//! `[queries]` of the configuration: what counts the query logs of this site, and within which bounds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, field, host, is_loopback};

/// Least memory for counting, MiB: the engine needs some for each of its parts before it can write anything to disk.
pub const LEAST_MEMORY: u32 = 32;

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// DataFusion in the worker's own process.
    #[default]
    Embedded,
    /// A cluster of Ballista of the site's own (a worker built with `cluster`).
    Cluster,
}

/// What counts query logs.
///
/// ```toml
/// [queries]
/// engine = "cluster"
/// scheduler = "df://scheduler.internal:50050"
/// shared = "/mnt/undertone"     # a folder that every executor sees under this very path
/// private_network = true        # Ballista speaks plain text: nobody else can listen there
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queries {
    /// Who counts.
    pub engine: Engine,
    /// The scheduler of the cluster, `df://host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// A folder that the worker and every executor see under the same path: candidates lie there while they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<PathBuf>,
    /// That the network between worker, scheduler and executors is the site's own, so that queries may cross it in plain text.
    pub private_network: bool,
    /// Memory that counting in the worker may take before it goes on on disk, MiB.
    pub memory_mib: u32,
    /// Disk that counting in the worker may take, MiB.
    pub spill_mib: u32,
    /// Into how many tasks a cluster divides the work; 0: 16. The worker itself counts in one.
    pub tasks: usize,
}

impl Default for Queries {
    fn default() -> Self {
        Self {
            engine: Engine::Embedded,
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
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// [`ConfigError::Field`] that names the field and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.memory_mib < LEAST_MEMORY {
            return Err(field("queries.memory_mib", format!("at least {LEAST_MEMORY}, not {}", self.memory_mib)));
        }
        if self.spill_mib == 0 {
            return Err(field("queries.spill_mib", "at least 1: counts that do not fit into memory go on on disk"));
        }
        match self.engine {
            Engine::Embedded => Ok(()),
            Engine::Cluster => self.cluster().map(drop),
        }
    }

    /// The scheduler's address, `df://host:port`, and the shared folder.
    ///
    /// # Errors
    /// [`ConfigError::Field`] when one is missing or would send queries in plain text where others may listen.
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
    use super::{Engine, Queries};

    fn read(text: &str) -> Result<Queries, String> {
        let queries: Queries = toml::from_str(text).map_err(|error| error.to_string())?;
        queries.check().map_err(|error| error.to_string())?;
        Ok(queries)
    }

    #[test]
    fn nothing_needs_to_be_said() {
        assert_eq!(read(""), Ok(Queries::default()));
        assert_eq!(Queries::default().engine, Engine::Embedded);
    }

    #[test]
    fn each_mistake_names_its_field() {
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
    fn queries_cross_only_a_network_of_the_sites_own() {
        let elsewhere = "engine = \"cluster\"\nscheduler = \"df://scheduler:50050\"\nshared = \"/mnt/undertone\"\n";
        assert!(read(elsewhere).expect_err("plain text").contains("queries.private_network"));
        assert!(read(&format!("{elsewhere}private_network = true")).is_ok());
        assert!(read(&elsewhere.replace("scheduler:", "127.0.0.1:")).is_ok());
    }
}
