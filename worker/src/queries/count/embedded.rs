//! DataFusion in the worker's own process, within a bound of memory; what does not fit goes on on disk, in the job's folder.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::rows::{Counts, Planned, Texts, Threads};
use super::{CountError, Engine, plan};
use crate::config::queries::Queries;

/// One that counts, and one that reads and writes meanwhile.
const THREADS: usize = 2;

/// Counts in this process.
pub struct Embedded {
    config: SessionConfig,
    bounds: Arc<RuntimeEnv>,
    threads: Arc<Threads>,
}

impl Embedded {
    /// Prepares to count within the configured bounds. `folder` must exist, and nobody else may read it: rows are written there
    /// as they are, into a folder of their own that is deleted with this engine.
    ///
    /// # Errors
    /// [`CountError::Engine`] when there can be no threads, or no folder.
    pub fn new(queries: &Queries, folder: &Path) -> Result<Self, CountError> {
        let memory = (queries.memory_mib as usize) << 20;
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![folder.to_owned()]))
            .with_max_temp_directory_size(u64::from(queries.spill_mib) << 20);
        let bounds = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
            .with_disk_manager_builder(disk)
            .build_arc()?;
        let config = SessionConfig::new()
            // One part: between parts DataFusion 55 passes rows on through the disk when memory is short, and there it now and then
            // waits for itself for ever (seen in one of some ten runs of this room's test).
            .with_target_partitions(1)
            .with_collect_statistics(false)
            // Set aside for merging what was written to disk, by each part that may write: a share of what there is.
            .with_sort_spill_reservation_bytes(memory / 8);
        Ok(Self { config, bounds, threads: Threads::start(THREADS)? })
    }

    fn context(&self) -> SessionContext {
        SessionContext::new_with_config_rt(self.config.clone(), Arc::clone(&self.bounds))
    }
}

impl Engine for Embedded {
    fn count(&self, candidates: &Path, k: u64) -> Result<Counts, CountError> {
        let frame = self.threads.wait(plan::count(&self.context(), candidates, k))?;
        Counts::of(&self.threads, Planned::of(&self.threads, &frame)?, Box::new(()))
    }

    fn distinct_users(&self, rows: &Path, per_user: u32) -> Result<Texts, CountError> {
        let frame = self.threads.wait(plan::distinct_users(&self.context(), rows, per_user))?;
        Texts::of(&self.threads, Planned::of(&self.threads, &frame)?, Box::new(()))
    }
}
