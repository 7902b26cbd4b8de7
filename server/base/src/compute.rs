//! Runs computations of privacy loss that occupy a processor for some time: plans, transforms, figures of certificates
//! and audits. They run on blocking threads, few at a time, in the order of [`FairQueue`], and their results are
//! cached.
//!
//! A cancelled caller stops waiting at once. A running step continues to its end, so long computations are split into
//! steps.

mod cache;
#[cfg(test)]
mod tests;

use std::time::Duration;

use undertone_api::report::PrivacyLevel;

use crate::error::Error;
use crate::fairness::{FairPermit, FairQueue, QueueLimits, QueueTimings, WorkOwner};

pub use cache::ComputeCache;

/// The number of concurrent computations. They are limited for memory too: a transform has up to 2^21 points.
pub const AT_A_TIME: usize = 2;
/// The highest number of waiting computations: in total, and for one organization.
pub const MOST_WAITING: (usize, usize) = (256, 32);
/// The longest time that a computation waits for its turn.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The highest number of cached results of each kind; the least recently used one is dropped.
pub const MOST_KEPT: usize = 4096;

const LIMITS: QueueLimits = QueueLimits {
    name: "computations",
    turns: "computations of privacy loss",
    at_a_time: AT_A_TIME,
    waiting: MOST_WAITING.0,
    waiting_of_owner: MOST_WAITING.1,
    patience: PATIENCE,
};

/// Runs computations and caches their results.
#[derive(Debug)]
pub struct ComputePool {
    turns: FairQueue,
    /// ε at δ of a single charge; `None` if it has no tight value.
    pub tight_epsilons: ComputeCache<Option<f64>>,
    /// The guarantees of releases at the levels of reports.
    pub levels: ComputeCache<Vec<PrivacyLevel>>,
}

impl ComputePool {
    /// Makes an idle pool.
    pub(crate) fn new(timings: QueueTimings) -> Self {
        Self {
            turns: FairQueue::new(LIMITS, timings),
            tight_epsilons: ComputeCache::new(),
            levels: ComputeCache::new(),
        }
    }

    /// Returns the number of waiting computations.
    #[cfg(any(test, feature = "testing"))]
    pub fn waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// Waits for a turn of `owner`, which is used for one step. What leads to the step, such as reads, may precede it in the turn, so
    /// that an owner without a turn occupies nothing else.
    ///
    /// # Errors
    /// `rate_limited` or `unavailable` if there is no turn.
    pub async fn admit(&self, owner: WorkOwner) -> Result<ComputeTurn, Error> {
        Ok(ComputeTurn { _permit: self.turns.acquire(owner).await? })
    }

    /// Runs one step for its owner; `what` names the step in the log.
    ///
    /// # Errors
    /// `rate_limited` or `unavailable` if there is no turn, [`Error::Internal`] if the step panics.
    pub async fn run<T: Send + 'static>(
        &self,
        owner: WorkOwner,
        what: &'static str,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.admit(owner).await?.run(what, step).await
    }
}

/// A turn, in which one step may run. Ends when it is dropped.
#[derive(Debug)]
pub struct ComputeTurn {
    _permit: FairPermit,
}

impl ComputeTurn {
    /// Runs the step of the turn; `what` names it in the log.
    ///
    /// # Errors
    /// [`Error::Internal`] if the step panics.
    pub async fn run<T: Send + 'static>(
        self,
        what: &'static str,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let running = tokio::task::spawn_blocking(move || {
            // The turn lasts until the step ends, even after its caller was cancelled.
            let _turn = self;
            step()
        });
        running.await.map_err(|error| Error::internal(what, error))
    }
}
