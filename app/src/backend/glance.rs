//! What pages may ask of a whole consortium at once: as much for two hundred datasets as for two. Part of
//! [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::budget::Entry;
use undertone_api::freeze::Freeze;
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::ledger::{AccountHistory, EntryFilter};
use undertone_api::model::Model;
use undertone_api::organization::Organization;
use undertone_api::page::{Page, PageQuery};

use super::Answer;
use crate::standing::Standing;

/// A dataset of a proposed job for which the caller is asked.
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
    pub rows: Vec<(DatasetId, Entry)>,
    /// How many datasets that are not public have rows that the caller may not read.
    pub closed: usize,
}

/// What one caller may ask of a whole consortium. What they may not see of it is left out.
#[async_trait]
pub trait Glance: Send + Sync + 'static {
    /// The answers that proposed jobs wait for and the caller may give, those to the newest jobs first, up to 100.
    async fn waiting(&self, consortium: ConsortiumId) -> Answer<Vec<Waiting>>;

    /// The datasets that are frozen now, each with the freeze that stands.
    async fn frozen(&self, consortium: ConsortiumId) -> Answer<Vec<(DatasetId, Freeze)>>;

    /// The newest 50 of the wanted rows of all datasets.
    async fn newest_entries(&self, consortium: ConsortiumId, wanted: EntryFilter) -> Answer<Newest>;

    /// How the accounts of these datasets came to stand as they do; without those whose rows are too many, or not the caller's to
    /// read.
    async fn histories(
        &self,
        consortium: ConsortiumId,
        datasets: Vec<DatasetId>,
    ) -> Answer<Vec<(DatasetId, Vec<AccountHistory>)>>;

    /// The full balances of the accounts of these datasets, in their order.
    async fn standings(
        &self,
        consortium: ConsortiumId,
        datasets: Vec<DatasetId>,
    ) -> Answer<Vec<(DatasetId, Vec<Standing>)>>;

    /// The finished jobs that left files, newest first, with them.
    async fn models(&self, consortium: ConsortiumId, page: PageQuery) -> Answer<Page<Model>>;

    /// Every organization that the caller may see, in whichever consortium, by name.
    async fn known_organizations(&self) -> Answer<Vec<Organization>>;
}
