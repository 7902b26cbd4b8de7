//! The job, dataset and charge under which a site releases.

use undertone_api::id::{DatasetId, JobId, LineageId};
use undertone_api::job::Charge;

use crate::books::AccountKey;

/// The context of a release: one job's part on one dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseContext {
    /// The job.
    pub job: JobId,
    /// The dataset, by the server's id.
    pub dataset: DatasetId,
    /// The dataset's lineage.
    pub lineage: LineageId,
    /// Digest of the manifest.
    pub manifest: String,
    /// The job's worst-case charge, computed at this site.
    pub charge: Charge,
}

impl ReleaseContext {
    pub(super) const fn account(&self) -> AccountKey {
        AccountKey::new(self.lineage, self.charge.unit, self.charge.adjacency)
    }
}
