//! Exact counts of the strings that a sketch nominated, by an existing engine: DataFusion in the worker's process
//! (feature `datafusion`), or the same plan on a cluster of Ballista (feature `cluster`).
//!
//! Exactness is a condition of the guarantee: a released count must be a function of that string's rows only. Nothing
//! here estimates, and rows that do not fit into memory are counted on disk instead of being left out. The plans use
//! DataFusion's own functions only, so that unmodified executors can run them.
//!
//! Two plans:
//! * [`CountingEngine::count`]: `SELECT text, SUM(n) AS n FROM candidates GROUP BY text HAVING SUM(n) >= k`.
//! * [`CountingEngine::distinct_users`]: one row for each user and text, and of each user at most `m`. A keyed order selects
//!   them and depends on that user's rows only, so that adding or removing a user changes no other user's rows. This
//!   plan runs before sampling.
//!
//! Resulting guarantees: counted by record, one *row* of the log is hidden. Counted by user, after `distinct_users`, a
//! *user* with at most one text is hidden as one row is, and a user with at most `m` texts as a group of `m`.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(not(feature = "datafusion"))]
pub use absent::{CountStream, TextStream};
pub use candidates::{CandidateFile, UserRows};
#[cfg(feature = "cluster")]
pub use cluster::ClusterEngine;
#[cfg(feature = "datafusion")]
pub use embedded::EmbeddedEngine;
#[cfg(feature = "datafusion")]
pub use rows::{CountStream, TextStream};

use crate::config::{self, Queries};

#[cfg(not(feature = "datafusion"))]
mod absent;
mod candidates;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "datafusion")]
mod embedded;
#[cfg(feature = "datafusion")]
mod plan;
#[cfg(feature = "datafusion")]
mod rows;

/// Why counting failed. No message contains a query: the engine's message is the source of the error, for the site's
/// own log.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: make sure that the disk is there and has room")]
    Io {
        /// The failed action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The configured bounds are too narrow.
    #[error(
        "counting needs more than its memory and disk: raise queries.memory_mib or queries.spill_mib in config.toml"
    )]
    Exhausted(#[source] Box<dyn Error + Send + Sync>),
    /// The counts exceed 64 bits.
    #[error("the counts of the log exceed 2^64: correct its count column or leave the column out")]
    Overflow,
    /// A row with a count of zero.
    #[error("a row of the log has the count 0: leave the row out")]
    Zero,
    /// The configuration names an engine that this program was built without.
    #[error(
        "this worker was built without `cluster`: build it with `--features cluster`, or set queries.engine = \"embedded\""
    )]
    NotBuilt,
    /// This program was built without an engine.
    #[error(
        "this worker was built without `datafusion`, by which it counts query logs: build it with `--features datafusion`"
    )]
    NoEngine,
    /// The configuration of the engine is wrong.
    #[error(transparent)]
    Config(#[from] undertone_worker_site::config::ConfigError),
    /// The engine failed.
    #[error("the counting engine failed: the site's log has its error")]
    Engine(#[source] Box<dyn Error + Send + Sync>),
}

#[cfg(feature = "datafusion")]
impl From<datafusion::error::DataFusionError> for CountError {
    fn from(error: datafusion::error::DataFusionError) -> Self {
        use datafusion::error::DataFusionError;
        let root = error.find_root();
        // The bound of the disk has no error kind of its own; its message names the setting.
        let exhausted = matches!(root, DataFusionError::ResourcesExhausted(_))
            || root.to_string().contains("datafusion.runtime.max_temp_directory_size");
        if exhausted { Self::Exhausted(error.into()) } else { Self::Engine(error.into()) }
    }
}

fn cannot(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CountError {
    move |source| CountError::Io { action, path: path.to_owned(), source }
}

/// An engine that counts. Its calls block, and so does reading a row of an answer: call them on a separate thread,
/// never on one that drives asynchronous tasks.
pub trait CountingEngine: Send + Sync {
    /// Returns the strings with at least `k` occurrences, with their exact counts, in no particular order.
    /// `candidates`: a file of [`CandidateFile`].
    ///
    /// # Errors
    /// [`CountError`], here or from the answer's rows.
    fn count(&self, candidates: &Path, k: u64) -> Result<CountStream, CountError>;

    /// Returns the text of one row for each user and text, at most `per_user` of each user, in no particular order.
    /// `rows`: a file of [`UserRows`].
    ///
    /// # Errors
    /// [`CountError`], here or from the answer's rows.
    fn distinct_users(&self, rows: &Path, per_user: u32) -> Result<TextStream, CountError>;
}

/// Opens the engine that the configuration names. `folder` is the job's own: the engine spills rows there, and deletes
/// them.
///
/// # Errors
/// [`CountError::NoEngine`], [`CountError::NotBuilt`] or [`CountError::Config`].
pub fn open(queries: &Queries, folder: &Path) -> Result<Box<dyn CountingEngine>, CountError> {
    queries.check()?;
    match queries.engine {
        #[cfg(feature = "datafusion")]
        config::EngineKind::Embedded => Ok(Box::new(EmbeddedEngine::new(queries, folder)?)),
        #[cfg(not(feature = "datafusion"))]
        config::EngineKind::Embedded => {
            let _ = folder;
            Err(CountError::NoEngine)
        }
        #[cfg(feature = "cluster")]
        config::EngineKind::Cluster => Ok(Box::new(ClusterEngine::new(queries)?)),
        #[cfg(not(feature = "cluster"))]
        config::EngineKind::Cluster => Err(CountError::NotBuilt),
    }
}

#[cfg(all(test, feature = "datafusion"))]
mod tests;
