//! The backend of pages about the audit log and the ledger.

use async_trait::async_trait;
use undertone_api::audit_log::{AuditCheck, AuditEntry, AuditPlace, AuditQuery};
use undertone_api::budget::LedgerEntry;
use undertone_api::id::{AccountId, ConsortiumId, DatasetId};
use undertone_api::ledger::{AccountHistory, EntryFilter, EntryProof};
use undertone_api::page::{Page, PageQuery};
use undertone_app::{Answer, Insight};

use super::desk::Desk;
use undertone_server_core::error::Error;
use undertone_server_core::service::{audit_log, ledger};

#[async_trait]
impl Insight for Desk {
    async fn history(&self, dataset: DatasetId) -> Answer<Vec<AccountHistory>> {
        ledger::history(self.ctx(), self.actor()?, dataset).await.map_err(Error::into_problem)
    }

    async fn search_entries(
        &self,
        dataset: DatasetId,
        wanted: EntryFilter,
        page: PageQuery,
    ) -> Answer<Page<LedgerEntry>> {
        let EntryFilter { kind, job, since, until } = wanted;
        let wanted = ledger::EntryFilter { kind, job, since, until };
        ledger::search(self.ctx(), self.actor()?, dataset, &wanted, &page).await.map_err(Error::into_problem)
    }

    async fn explain(&self, account: AccountId, sequence: u64) -> Answer<EntryProof> {
        ledger::explain(self.ctx(), self.actor()?, account, sequence).await.map_err(Error::into_problem)
    }

    fn entry_file(&self, account: AccountId, sequence: u64) -> String {
        format!("/api/v1/accounts/{account}/entries/{sequence}")
    }

    fn ledger_file(&self, consortium: ConsortiumId) -> String {
        format!("/api/v1/consortia/{consortium}/ledger/bundle")
    }

    async fn audit_log(&self, place: AuditPlace, wanted: AuditQuery, page: PageQuery) -> Answer<Page<AuditEntry>> {
        audit_log::list(self.ctx(), self.actor()?, place, &wanted, &page).await.map_err(Error::into_problem)
    }

    async fn check_audit_log(&self, place: AuditPlace) -> Answer<AuditCheck> {
        audit_log::check(self.ctx(), self.actor()?, place).await.map_err(Error::into_problem)
    }

    fn audit_log_file(&self, place: AuditPlace) -> String {
        match place {
            AuditPlace::Server => "/api/v1/audit-log/export".to_owned(),
            AuditPlace::Consortium(id) => format!("/api/v1/consortia/{id}/audit-log/export"),
            AuditPlace::Organization(id) => format!("/api/v1/organizations/{id}/audit-log/export"),
        }
    }
}
