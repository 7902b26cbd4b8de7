//! The pages' requests about a whole consortium at once, with one request for any number of datasets. Part of
//! [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::budget::LedgerEntry;
use undertone_api::freeze::Freeze;
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::ledger::{AccountHistory, EntryFilter};
use undertone_api::model::JobModel;
use undertone_api::organization::Organization;
use undertone_api::page::{Page, PageQuery};

use super::Answer;
use crate::standing::Standing;

/// A dataset of a proposed job that waits for the caller's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The job.
    pub job: JobId,
    /// Its title.
    pub title: String,
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
}

/// The newest rows of a consortium's ledgers.
#[derive(Debug, Clone, PartialEq)]
pub struct Newest {
    /// The rows, newest first, each with the dataset that was charged.
    pub rows: Vec<(DatasetId, LedgerEntry)>,
    /// The number of datasets that are not public and have rows hidden from the caller.
    pub closed: usize,
}

/// The requests of one caller about a whole consortium. Hidden parts are left out.
#[async_trait]
pub trait Glance: Send + Sync + 'static {
    /// Returns the decisions that proposed jobs wait for and the caller may make, those of the newest jobs first, up to
    /// 100.
    async fn waiting(&self, consortium: ConsortiumId) -> Answer<Vec<Waiting>>;

    /// Returns the frozen datasets, each with its current freeze.
    async fn frozen(&self, consortium: ConsortiumId) -> Answer<Vec<(DatasetId, Freeze)>>;

    /// Returns the newest 50 matching rows of all datasets.
    async fn newest_entries(&self, consortium: ConsortiumId, wanted: EntryFilter) -> Answer<Newest>;

    /// Returns the account histories of these datasets; without those with too many rows, or rows hidden from the
    /// caller.
    async fn histories(
        &self,
        consortium: ConsortiumId,
        datasets: Vec<DatasetId>,
    ) -> Answer<Vec<(DatasetId, Vec<AccountHistory>)>>;

    /// Returns the full balances of the accounts of these datasets, in their order.
    async fn standings(
        &self,
        consortium: ConsortiumId,
        datasets: Vec<DatasetId>,
    ) -> Answer<Vec<(DatasetId, Vec<Standing>)>>;

    /// Returns the finished jobs with files, newest first, with the files.
    async fn models(&self, consortium: ConsortiumId, page: PageQuery) -> Answer<Page<JobModel>>;

    /// Returns every organization that the caller may see, in any consortium, by name.
    async fn known_organizations(&self) -> Answer<Vec<Organization>>;
}
