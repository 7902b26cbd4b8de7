//! The same plans on a cluster of Ballista: a scheduler, reached by its URL, and executors, all as Ballista distributes them.
//!
//! What is shipped is the logical plan. The rows are not: executors read them from a folder that they share with the worker (a
//! network file system, or a bucket mounted as one) and see under the same path. A job's folder inside it costs nothing; rows
//! that lie elsewhere are linked or copied there for as long as they are counted.
//!
//! Who can read: the rows are sampled but not yet past the gate, so the executors belong to the site, run under the worker's
//! account or its group, and share a network with nobody else: Ballista speaks plain text. When an answer has been read, the
//! scheduler is told to delete what the executors wrote for it.
//!
//! An executor that dies while it counts is replaced: its tasks run again elsewhere, on the same rows. When one dies with a
//! finished part of the answer, the answer fails as a whole; half of one is never taken for all.

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

use super::rows::{Counts, Planned, Texts, Threads};
use super::{CountError, Engine, cannot, plan};
use crate::config::queries::Queries;

/// Tasks of a stage when the configuration does not say: work for so many cores at a time.
const TASKS: usize = 16;
/// Files are divided among tasks from this size on, bytes.
const LEAST_SHARE: usize = 1 << 20;

/// Counts on a cluster.
pub struct Cluster {
    scheduler: String,
    shared: PathBuf,
    tasks: usize,
    threads: Arc<Threads>,
}

impl Cluster {
    /// Prepares to count on the configured cluster; it is called when there is something to count.
    ///
    /// # Errors
    /// [`CountError::Config`], or [`CountError::Engine`] when there can be no threads.
    pub fn new(queries: &Queries) -> Result<Self, CountError> {
        let (scheduler, shared) = queries.cluster()?;
        Ok(Self {
            scheduler: scheduler.to_owned(),
            shared: std::path::absolute(shared).map_err(cannot("find", shared))?,
            tasks: if queries.tasks == 0 { TASKS } else { queries.tasks },
            threads: Threads::start(1)?,
        })
    }

    async fn context(&self) -> Result<SessionContext, CountError> {
        let config = SessionConfig::new_with_ballista()
            .with_ballista_job_name("undertone: counting")
            // The other planner of 55.0 plans the stages of some queries again and again, without end.
            .with_ballista_adaptive_query_planner(false)
            .with_target_partitions(self.tasks)
            .with_collect_statistics(false)
            .with_repartition_file_min_size(LEAST_SHARE);
        let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
        Ok(SessionContext::remote_with_state(&self.scheduler, state).await?)
    }

    /// Where the executors find the rows of `file`.
    fn place(&self, file: &Path) -> Result<Placed, CountError> {
        let file = std::path::absolute(file).map_err(cannot("find", file))?;
        if file.starts_with(&self.shared) {
            return Ok(Placed { path: file, ours: false });
        }
        let placed = Placed { path: self.shared.join(format!("candidates-{}.parquet", Uuid::now_v7())), ours: true };
        if fs::hard_link(&file, &placed.path).is_err() {
            fs::copy(&file, &placed.path).map_err(cannot("copy the rows to", &placed.path))?;
            // The executors' account reads through the group, if it is not the worker's.
            let readable = fs::set_permissions(&placed.path, Permissions::from_mode(0o640));
            readable.map_err(cannot("open to the group", &placed.path))?;
        }
        Ok(placed)
    }

    /// What is done once the answer has been read, or nobody wants it any more.
    fn afterwards(&self, planned: &Planned, placed: Placed) -> Afterwards {
        Afterwards {
            scheduler: self.scheduler.replacen("df://", "http://", 1),
            plan: Arc::clone(&planned.plan),
            threads: Arc::clone(&self.threads),
            _placed: placed,
        }
    }

    fn plan(&self, frame: &DataFrame, placed: Placed) -> Result<(Planned, Afterwards), CountError> {
        let planned = Planned::of(&self.threads, frame)?;
        let afterwards = self.afterwards(&planned, placed);
        Ok((planned, afterwards))
    }
}

impl Engine for Cluster {
    fn count(&self, candidates: &Path, k: u64) -> Result<Counts, CountError> {
        let placed = self.place(candidates)?;
        let frame = self.threads.wait(async { plan::count(&self.context().await?, &placed.path, k).await })?;
        let (planned, afterwards) = self.plan(&frame, placed)?;
        Counts::of(&self.threads, planned, Box::new(afterwards))
    }

    fn distinct_users(&self, rows: &Path, per_user: u32) -> Result<Texts, CountError> {
        let placed = self.place(rows)?;
        let frame =
            self.threads.wait(async { plan::distinct_users(&self.context().await?, &placed.path, per_user).await })?;
        let (planned, afterwards) = self.plan(&frame, placed)?;
        Texts::of(&self.threads, planned, Box::new(afterwards))
    }
}

/// A file that the executors see; deleted afterwards, if it was put there for them.
struct Placed {
    path: PathBuf,
    ours: bool,
}

impl Drop for Placed {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "rows that were counted are still in the shared folder: delete them");
        }
    }
}

/// Tells the scheduler to delete what the executors wrote, when it is dropped.
struct Afterwards {
    scheduler: String,
    plan: Arc<dyn ExecutionPlan>,
    threads: Arc<Threads>,
    _placed: Placed,
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        let query = self.plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>();
        let Some(job) = query.and_then(DistributedQueryExec::job_id) else { return };
        let (scheduler, threads) = (self.scheduler.clone(), Arc::clone(&self.threads));
        self.threads.spawn(async move {
            let told = async {
                let mut client = SchedulerGrpcClient::connect(scheduler).await?;
                client.clean_job_data(CleanJobDataParams { job_id: job.into(), ..Default::default() }).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            };
            if let Err(error) = told.await {
                tracing::warn!(%error, "the cluster keeps what it wrote while counting until its own time limit");
            }
            drop(threads);
        });
    }
}

#[cfg(all(test, feature = "cluster-test"))]
mod tests;
