//! Exact counts of the strings that a sketch nominated, by an engine that exists: DataFusion in the worker's process, or the
//! same plan on a cluster of Ballista (feature `cluster`).
//!
//! Exactness is a condition of the guarantee (a released count must be a function of that string's rows only), so nothing here
//! estimates, and what does not fit into memory goes on on disk instead of being left out. Engines get plans of DataFusion's own
//! functions only, so that executors as they are distributed can run them.
//!
//! Two plans:
//! * [`Engine::count`]: `SELECT text, SUM(n) AS n FROM candidates GROUP BY text HAVING SUM(n) >= k`.
//! * [`Engine::distinct_users`]: one row for each user and text, and of each user at most `m`, chosen by a keyed order that
//!   depends on that user's rows only: adding or removing a user changes no other user's rows. It comes before sampling.
//!
//! Guarantees that follow: counted by record, one *row* of the log is hidden. Counted by user, after `distinct_users`, a *user*
//! with at most one text is hidden as one row is, and a user with at most `m` texts as a group of `m`.

use std::io;
use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;

pub use candidates::{Candidates, UserRows};
#[cfg(feature = "cluster")]
pub use cluster::Cluster;
pub use embedded::Embedded;
pub use rows::{Counts, Texts};

use crate::config::queries::{self, Queries};

mod candidates;
#[cfg(feature = "cluster")]
mod cluster;
mod embedded;
mod plan;
mod rows;

/// Why there are no counts. No message contains a query: what an engine said is the cause, for the site's own log.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: make sure that the disk is there and has room")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The configured bounds are too narrow.
    #[error(
        "counting needs more than its memory and disk: raise queries.memory_mib or queries.spill_mib in config.toml"
    )]
    Exhausted(#[source] DataFusionError),
    /// Counts that no 64-bit number can hold.
    #[error(
        "the counts of the log add up to more than 2^64: a count column in it cannot be right; mend it or leave it out"
    )]
    Overflow,
    /// A count of nothing.
    #[error("a row that occurred zero times is no row: leave it out")]
    Zero,
    /// The configuration asks for what this program was not built with.
    #[error(
        "this worker was built without `cluster`: build it with `--features cluster`, or set queries.engine = \"embedded\""
    )]
    NotBuilt,
    /// The configuration of the engine is wrong.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// The engine gave up.
    #[error("the counting engine failed: its own words are in the site's log")]
    Engine(#[source] DataFusionError),
}

impl From<DataFusionError> for CountError {
    fn from(error: DataFusionError) -> Self {
        let root = error.find_root();
        // The bound of the disk has no kind of its own; its message names the setting.
        let exhausted = matches!(root, DataFusionError::ResourcesExhausted(_))
            || root.to_string().contains("datafusion.runtime.max_temp_directory_size");
        if exhausted { Self::Exhausted(error) } else { Self::Engine(error) }
    }
}

fn cannot(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CountError {
    move |source| CountError::Io { action, path: path.to_owned(), source }
}

/// What counts. Calls block, and so does taking a row of an answer: they belong on a thread of their own, never on one that
/// drives asynchronous tasks.
pub trait Engine: Send + Sync {
    /// The strings with at least `k` occurrences, with their exact counts, in no particular order. `candidates`: a file of
    /// [`Candidates`].
    ///
    /// # Errors
    /// [`CountError`], here or from the answer's rows.
    fn count(&self, candidates: &Path, k: u64) -> Result<Counts, CountError>;

    /// The text of one row for each user and text, at most `per_user` of each user, in no particular order. `rows`: a file of
    /// [`UserRows`].
    ///
    /// # Errors
    /// [`CountError`], here or from the answer's rows.
    fn distinct_users(&self, rows: &Path, per_user: u32) -> Result<Texts, CountError>;
}

/// The engine that the configuration names. `folder` is the job's own: what does not fit into memory is written there, and
/// deleted.
///
/// # Errors
/// [`CountError::NotBuilt`] or [`CountError::Config`].
pub fn open(queries: &Queries, folder: &Path) -> Result<Box<dyn Engine>, CountError> {
    queries.check()?;
    match queries.engine {
        queries::Engine::Embedded => Ok(Box::new(Embedded::new(queries, folder)?)),
        #[cfg(feature = "cluster")]
        queries::Engine::Cluster => Ok(Box::new(Cluster::new(queries)?)),
        #[cfg(not(feature = "cluster"))]
        queries::Engine::Cluster => Err(CountError::NotBuilt),
    }
}

#[cfg(test)]
mod tests;
