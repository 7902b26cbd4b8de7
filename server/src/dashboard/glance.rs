//! The backend of pages about a whole consortium.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use undertone_api::freeze::Freeze;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::ledger::{AccountHistory, EntryFilter};
use undertone_api::model::JobModel;
use undertone_api::organization::Organization;
use undertone_api::page::{Page, PageQuery};
use undertone_app::{Answer, Glance, Newest, Standing, Waiting};

use super::desk::Desk;
use undertone_server_core::error::Error;
use undertone_server_core::service::{approval, budget, freeze, job, ledger, model, organization};

/// Rows of a consortium's ledgers on one page.
const ROWS: u64 = 50;

#[async_trait]
impl Glance for Desk {
    async fn waiting(&self, consortium: ConsortiumId) -> Answer<Vec<Waiting>> {
        let waiting = approval::waiting(self.ctx(), self.actor()?, consortium).await.map_err(Error::into_problem)?;
        let told = |one: approval::Waiting| Waiting {
            job: one.job,
            title: one.title,
            dataset: one.dataset,
            dataset_name: one.dataset_name,
        };
        Ok(waiting.into_iter().map(told).collect())
    }

    async fn frozen(&self, consortium: ConsortiumId) -> Answer<Vec<(DatasetId, Freeze)>> {
        freeze::standing(self.ctx(), self.actor()?, consortium).await.map_err(Error::into_problem)
    }

    async fn newest_entries(&self, consortium: ConsortiumId, wanted: EntryFilter) -> Answer<Newest> {
        let EntryFilter { kind, job, since, until } = wanted;
        let wanted = ledger::EntryFilter { kind, job, since, until };
        let newest = ledger::newest(self.ctx(), self.actor()?, consortium, &wanted, ROWS).await;
        let ledger::NewestEntries { rows, closed } = newest.map_err(Error::into_problem)?;
        Ok(Newest { rows, closed })
    }

    async fn histories(
        &self,
        consortium: ConsortiumId,
        datasets: Vec<DatasetId>,
    ) -> Answer<Vec<(DatasetId, Vec<AccountHistory>)>> {
        ledger::histories(self.ctx(), self.actor()?, consortium, &datasets).await.map_err(Error::into_problem)
    }

    async fn standings(
        &self,
        consortium: ConsortiumId,
        datasets: Vec<DatasetId>,
    ) -> Answer<Vec<(DatasetId, Vec<Standing>)>> {
        let standings = budget::standings(self.ctx(), self.actor()?, consortium, &datasets).await;
        let told = |(unit, adjacency, balance)| Standing { unit, adjacency, balance };
        let standings = standings.map_err(Error::into_problem)?.into_iter();
        Ok(standings.map(|(dataset, accounts)| (dataset, accounts.into_iter().map(told).collect())).collect())
    }

    async fn models(&self, consortium: ConsortiumId, page: PageQuery) -> Answer<Page<JobModel>> {
        let all = job::Wanted::default();
        model::in_consortium(self.ctx(), self.actor()?, consortium, &all, &page).await.map_err(Error::into_problem)
    }

    async fn known_organizations(&self) -> Answer<Vec<Organization>> {
        organization::list(self.ctx(), self.actor()?).await.map_err(Error::into_problem)
    }
}
