//! DataFusion in the worker's process, within a bound of memory; it spills the rest to disk, in the job's folder.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::rows::{CountStream, EngineThreads, ExecutablePlan, TextStream};
use super::{CountError, CountingEngine, plan};
use crate::config::Queries;

/// One thread counts, and one reads and writes meanwhile.
const THREADS: usize = 2;

/// The counting engine in this process.
pub struct EmbeddedEngine {
    config: SessionConfig,
    bounds: Arc<RuntimeEnv>,
    threads: Arc<EngineThreads>,
}

impl EmbeddedEngine {
    /// Prepares to count within the configured bounds. `folder` must exist and be readable by its owner only: the
    /// engine spills plain rows into a folder of its own there, and deletes it when it is dropped.
    ///
    /// # Errors
    /// [`CountError::Engine`] when the threads or the folder cannot be made.
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
            // One partition: between partitions DataFusion 55 passes rows on through the disk when memory is short, and
            // sometimes deadlocks there (in about one of ten runs of this module's test).
            .with_target_partitions(1)
            .with_collect_statistics(false)
            // Memory for merging spilled rows, for each part that may spill: a share of the total.
            .with_sort_spill_reservation_bytes(memory / 8);
        Ok(Self { config, bounds, threads: EngineThreads::start(THREADS)? })
    }

    fn context(&self) -> SessionContext {
        SessionContext::new_with_config_rt(self.config.clone(), Arc::clone(&self.bounds))
    }
}

impl CountingEngine for EmbeddedEngine {
    fn count(&self, candidates: &Path, k: u64) -> Result<CountStream, CountError> {
        let frame = self.threads.wait(plan::count(&self.context(), candidates, k))?;
        CountStream::start(&self.threads, ExecutablePlan::from_frame(&self.threads, &frame)?, Box::new(()))
    }

    fn distinct_users(&self, rows: &Path, per_user: u32) -> Result<TextStream, CountError> {
        let frame = self.threads.wait(plan::distinct_users(&self.context(), rows, per_user))?;
        TextStream::start(&self.threads, ExecutablePlan::from_frame(&self.threads, &frame)?, Box::new(()))
    }
}
