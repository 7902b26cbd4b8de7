//! What the manifests of jobs plan for their participants, by job and dataset: a manifest never changes, so a worker's receipts are
//! compared with a plan that was read once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use undertone_api::id::{DatasetId, JobId, LineageId, WorkerId};
use undertone_api::job::Charge;
use undertone_privacy::Event;

/// The most plans that are kept; the one that was not used for the longest time is dropped first.
pub const MOST_PART_PLANS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// The releases that a manifest plans for one participant.
#[derive(Debug, Clone, PartialEq)]
pub struct PartPlan {
    /// The digest of the manifest.
    pub manifest: String,
    /// The worker of the dataset.
    pub worker: WorkerId,
    /// The lineage of the dataset.
    pub lineage: LineageId,
    /// What the manifest charges; `None` for public data.
    pub charge: Option<Charge>,
    /// The rounds in which the participant releases a vector.
    pub series: Vec<SeriesPlan>,
    /// The series in which the whole charge is released once: as a pool of questions, or to a recipient outside of the consortium.
    pub once: Vec<String>,
}

/// The releases of a participant in a series of rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesPlan {
    /// The name of the series.
    pub name: String,
    /// The number of its rounds.
    pub rounds: u32,
    /// One release.
    pub event: Event,
}

/// A cache of plans.
pub struct PartPlans(Mutex<LruCache<(JobId, DatasetId), Arc<PartPlan>>>);

impl Default for PartPlans {
    fn default() -> Self {
        Self::new(MOST_PART_PLANS)
    }
}

impl PartPlans {
    /// Makes an empty cache of at most `most` plans.
    pub fn new(most: NonZeroUsize) -> Self {
        Self(Mutex::new(LruCache::new(most)))
    }

    /// Returns the plan of a participant, if it was kept.
    pub fn get(&self, part: (JobId, DatasetId)) -> Option<Arc<PartPlan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&part).map(Arc::clone)
    }

    /// Keeps the plan of a participant of a committed job.
    pub fn keep(&self, part: (JobId, DatasetId), plan: Arc<PartPlan>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(part, plan);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_the_most_recently_used_plans_are_kept() {
        let plans = PartPlans::new(NonZeroUsize::new(2).expect("above 0"));
        let part = |number| (JobId(Uuid::from_u128(number)), DatasetId(Uuid::from_u128(9)));
        let plan = |number| {
            Arc::new(PartPlan {
                manifest: format!("manifest {number}"),
                worker: WorkerId(Uuid::from_u128(1)),
                lineage: LineageId(Uuid::from_u128(2)),
                charge: None,
                series: Vec::new(),
                once: Vec::new(),
            })
        };
        plans.keep(part(1), plan(1));
        plans.keep(part(2), plan(2));
        assert_eq!(plans.get(part(1)), Some(plan(1)));
        plans.keep(part(3), plan(3));
        assert_eq!([1, 2, 3].map(|number| plans.get(part(number))), [Some(plan(1)), None, Some(plan(3))]);
    }
}
