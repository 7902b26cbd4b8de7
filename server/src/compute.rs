//! Computations of privacy loss that take a processor for a while: plans, transforms, figures of certificates and audits. They run
//! beside the runtime, few at a time, in the order of [`FairQueue`], and what they come to is kept.
//!
//! A caller that leaves stops waiting at once. A step that runs goes on to its end, so work of several steps is run step by step.

mod cache;
#[cfg(test)]
mod tests;

use std::time::Duration;

use undertone_api::report::Level;

use crate::error::Error;
use crate::fairness::{FairQueue, QueueLimits, QueueTimings, WorkOwner};

pub(crate) use cache::ComputeCache;

/// Computations at a time. They need memory, too: a transform has up to 2^21 points.
pub(crate) const AT_A_TIME: usize = 2;
/// Computations that wait; of one organization.
pub(crate) const MOST_WAITING: (usize, usize) = (256, 32);
/// How long a computation waits for its turn.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Results of each kind that are kept; the one that was asked for longest ago makes room.
pub(crate) const MOST_KEPT: usize = 4096;

const LIMITS: QueueLimits = QueueLimits {
    name: "computations",
    turns: "computations of privacy loss",
    at_a_time: AT_A_TIME,
    waiting: MOST_WAITING.0,
    waiting_of_owner: MOST_WAITING.1,
    patience: PATIENCE,
};

/// Runs computations, and keeps results.
#[derive(Debug)]
pub(crate) struct ComputePool {
    turns: FairQueue,
    /// ε at δ of a charge by itself; `None` where there is none.
    pub(crate) tight_epsilons: ComputeCache<Option<f64>>,
    /// What releases promise at the levels of reports.
    pub(crate) levels: ComputeCache<Vec<Level>>,
}

impl ComputePool {
    /// Makes a pool in which nothing runs.
    pub(crate) fn new(timings: QueueTimings) -> Self {
        Self {
            turns: FairQueue::new(LIMITS, timings),
            tight_epsilons: ComputeCache::new(),
            levels: ComputeCache::new(),
        }
    }

    /// Runs one step for its owner; `what` is being done, in the log.
    ///
    /// # Errors
    /// `rate_limited` or `unavailable` when there is no turn, [`Error::Internal`] when the step panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        owner: WorkOwner,
        what: &'static str,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turns.acquire(owner).await?;
        let running = tokio::task::spawn_blocking(move || {
            // Until the step has ended, whether or not its caller still waits.
            let _turn = turn;
            step()
        });
        running.await.map_err(|error| Error::internal(what, error))
    }
}
