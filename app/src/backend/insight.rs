//! The pages' requests about past actions and charges: account histories, rows with their proofs, audit logs.

use async_trait::async_trait;
use undertone_api::audit_log::{AuditCheck, AuditEntry, AuditPlace, AuditQuery};
use undertone_api::budget::LedgerEntry;
use undertone_api::id::{AccountId, ConsortiumId, DatasetId};
use undertone_api::ledger::{AccountHistory, EntryFilter, EntryProof};
use undertone_api::page::{Page, PageQuery};

use super::Answer;

/// The requests about past actions and charges.
#[async_trait]
pub trait Insight: Send + Sync + 'static {
    /// Returns the histories of a dataset's accounts.
    async fn history(&self, dataset: DatasetId) -> Answer<Vec<AccountHistory>>;

    /// Returns the matching rows of a dataset's ledger, newest first.
    async fn search_entries(
        &self,
        dataset: DatasetId,
        wanted: EntryFilter,
        page: PageQuery,
    ) -> Answer<Page<LedgerEntry>>;

    /// Returns one row of an account with its proofs.
    async fn explain(&self, account: AccountId, sequence: u64) -> Answer<EntryProof>;

    /// Returns the REST address of one row with its proofs, for the caller's browser.
    fn entry_file(&self, account: AccountId, sequence: u64) -> String;

    /// Returns the REST address of a consortium's ledgers, for the caller's browser.
    fn ledger_file(&self, consortium: ConsortiumId) -> String;

    /// Returns the matching entries of a place's audit log, newest first.
    async fn audit_log(&self, place: AuditPlace, wanted: AuditQuery, page: PageQuery) -> Answer<Page<AuditEntry>>;

    /// Checks whether a place's audit log is complete.
    async fn check_audit_log(&self, place: AuditPlace) -> Answer<AuditCheck>;

    /// Returns the REST address of a place's audit log without a query, for the caller's browser.
    fn audit_log_file(&self, place: AuditPlace) -> String;
}
