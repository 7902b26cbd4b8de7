//! The same plans on a cluster of Ballista: a scheduler, reached by its URL, and executors, all as Ballista distributes them.
//!
//! The worker ships the logical plan and not the rows: executors read the rows from a folder that they share with the
//! worker (a network file system, or a bucket mounted as one) and see under the same path. A job's folder inside the
//! shared one costs nothing. Rows that lie elsewhere are linked or copied there while the cluster counts them.
//!
//! Access: the rows are sampled but have not passed the gate. The executors must therefore belong to the site, run
//! under the worker's account or its group, and share a network with no other party, because Ballista sends plain text.
//! After an answer has been read, the worker makes the scheduler delete the files that the executors wrote for it.
//!
//! The cluster replaces an executor that dies while it counts: its tasks run again elsewhere, on the same rows. If an
//! executor dies with a finished part of the answer, the whole answer fails; a part of an answer is never returned as
//! the whole.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::serde::protobuf::CleanJobDataParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::LogicalPlanNode;
use uuid::Uuid;

use super::rows::{CountStream, EngineThreads, ExecutablePlan, TextStream};
use super::{CountError, CountingEngine, cannot, plan};
use crate::config::Queries;

/// Tasks of a stage without a configured number: the number of cores that can work at a time.
const TASKS: usize = 16;
/// Least size of a file that is divided among tasks, bytes.
const LEAST_SHARE: usize = 1 << 20;

/// The counting engine on a cluster.
pub struct ClusterEngine {
    scheduler: String,
    shared: PathBuf,
    tasks: usize,
    threads: Arc<EngineThreads>,
}

impl ClusterEngine {
    /// Prepares to count on the configured cluster; a count opens the connection.
    ///
    /// # Errors
    /// [`CountError::Config`], or [`CountError::Engine`] when the threads cannot start.
    pub fn new(queries: &Queries) -> Result<Self, CountError> {
        let (scheduler, shared) = queries.cluster()?;
        Ok(Self {
            scheduler: scheduler.to_owned(),
            shared: std::path::absolute(shared).map_err(cannot("find", shared))?,
            tasks: if queries.tasks == 0 { TASKS } else { queries.tasks },
            threads: EngineThreads::start(1)?,
        })
    }

    async fn context(&self) -> Result<SessionContext, CountError> {
        let config = SessionConfig::new_with_ballista()
            .with_ballista_job_name("undertone: counting")
            // The other planner of 55.0 replans the stages of some queries without end.
            .with_ballista_adaptive_query_planner(false)
            .with_target_partitions(self.tasks)
            .with_collect_statistics(false)
            .with_repartition_file_min_size(LEAST_SHARE);
        let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
        Ok(SessionContext::remote_with_state(&self.scheduler, state).await?)
    }

    /// Makes the rows of `file` visible to the executors.
    fn place(&self, file: &Path) -> Result<SharedFile, CountError> {
        let file = std::path::absolute(file).map_err(cannot("find", file))?;
        if file.starts_with(&self.shared) {
            return Ok(SharedFile { path: file, ours: false });
        }
        let placed =
            SharedFile { path: self.shared.join(format!("candidates-{}.parquet", Uuid::now_v7())), ours: true };
        if fs::hard_link(&file, &placed.path).is_err() {
            fs::copy(&file, &placed.path).map_err(cannot("copy the rows to", &placed.path))?;
            // The executors' account reads through the group, if it is not the worker's.
            let readable = fs::set_permissions(&placed.path, Permissions::from_mode(0o640));
            readable.map_err(cannot("open to the group", &placed.path))?;
        }
        Ok(placed)
    }

    /// Returns the cleanup for the time when the answer has been read or dropped.
    fn cleanup(&self, planned: &ExecutablePlan, placed: SharedFile) -> JobCleanup {
        JobCleanup {
            scheduler: self.scheduler.replacen("df://", "http://", 1),
            plan: Arc::clone(&planned.plan),
            threads: Arc::clone(&self.threads),
            _placed: placed,
        }
    }

    fn plan(&self, frame: &DataFrame, placed: SharedFile) -> Result<(ExecutablePlan, JobCleanup), CountError> {
        let planned = ExecutablePlan::from_frame(&self.threads, frame)?;
        let cleanup = self.cleanup(&planned, placed);
        Ok((planned, cleanup))
    }
}

impl CountingEngine for ClusterEngine {
    fn count(&self, candidates: &Path, k: u64) -> Result<CountStream, CountError> {
        let placed = self.place(candidates)?;
        let frame = self.threads.wait(async { plan::count(&self.context().await?, &placed.path, k).await })?;
        let (planned, cleanup) = self.plan(&frame, placed)?;
        CountStream::start(&self.threads, planned, Box::new(cleanup))
    }

    fn distinct_users(&self, rows: &Path, per_user: u32) -> Result<TextStream, CountError> {
        let placed = self.place(rows)?;
        let frame =
            self.threads.wait(async { plan::distinct_users(&self.context().await?, &placed.path, per_user).await })?;
        let (planned, cleanup) = self.plan(&frame, placed)?;
        TextStream::start(&self.threads, planned, Box::new(cleanup))
    }
}

/// A file that the executors see. Dropping this deletes the file if it was put there for them.
struct SharedFile {
    path: PathBuf,
    ours: bool,
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot delete counted rows from the shared folder: delete them");
        }
    }
}

/// Makes the scheduler delete the files that the executors wrote, when this is dropped.
struct JobCleanup {
    scheduler: String,
    plan: Arc<dyn ExecutionPlan>,
    threads: Arc<EngineThreads>,
    _placed: SharedFile,
}

impl Drop for JobCleanup {
    fn drop(&mut self) {
        let query = self.plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>();
        let Some(job) = query.and_then(DistributedQueryExec::job_id) else { return };
        let scheduler = self.scheduler.clone();
        let threads = Arc::clone(&self.threads);
        self.threads.spawn(async move {
            let cleanup = async {
                let mut client = SchedulerGrpcClient::connect(scheduler).await?;
                client.clean_job_data(CleanJobDataParams { job_id: job.into(), ..Default::default() }).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            };
            if let Err(error) = cleanup.await {
                tracing::warn!(%error, "cannot delete the cluster's files of a count: they remain until the cluster's own time limit");
            }
            drop(threads);
        });
    }
}

#[cfg(all(test, feature = "cluster-test"))]
mod tests;
