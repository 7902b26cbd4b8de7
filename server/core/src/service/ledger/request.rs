//! The request of a job to an account.

use undertone_api::id::{DatasetId, LineageId, OrganizationId};
use undertone_api::job::Charge;
use undertone_api::plan::AccountKey;

/// The request of one dataset of a job to its account.
#[derive(Debug, Clone)]
pub struct ChargeRequest {
    /// The dataset.
    pub dataset: DatasetId,
    /// The dataset's name.
    pub dataset_name: String,
    /// The organization that owns the dataset.
    pub organization: OrganizationId,
    /// The dataset's lineage.
    pub lineage: LineageId,
    /// The worst case of the job for the dataset.
    pub charge: Charge,
}

impl ChargeRequest {
    /// Returns the key of the account that is charged.
    pub const fn key(&self) -> AccountKey {
        AccountKey::new(self.organization, self.lineage, self.charge.unit, self.charge.adjacency)
    }
}
