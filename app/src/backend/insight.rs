//! What pages may ask to look into what was done and spent: histories of accounts, rows with their proofs, audit logs.

use async_trait::async_trait;
use undertone_api::audit_log::{AuditCheck, AuditEntry, AuditQuery, Where};
use undertone_api::budget::Entry;
use undertone_api::id::{AccountId, ConsortiumId, DatasetId};
use undertone_api::ledger::{AccountHistory, EntryFilter, EntryProof};
use undertone_api::page::{Page, PageQuery};

use super::Answer;

/// What pages may ask to look into what was done and spent.
#[async_trait]
pub trait Insight: Send + Sync + 'static {
    /// How a dataset's accounts came to stand as they do.
    async fn history(&self, dataset: DatasetId) -> Answer<Vec<AccountHistory>>;

    /// The wanted rows of a dataset's ledger, newest first.
    async fn search_entries(&self, dataset: DatasetId, wanted: EntryFilter, page: PageQuery) -> Answer<Page<Entry>>;

    /// One row of an account with its proofs.
    async fn explain(&self, account: AccountId, sequence: u64) -> Answer<EntryProof>;

    /// The address from which the caller's browser can fetch one row with its proofs: the REST address.
    fn entry_file(&self, account: AccountId, sequence: u64) -> String;

    /// The address from which the caller's browser can fetch a consortium's ledgers: the REST address.
    fn ledger_file(&self, consortium: ConsortiumId) -> String;

    /// The wanted entries of a place's audit log, newest first.
    async fn audit_log(&self, place: Where, wanted: AuditQuery, page: PageQuery) -> Answer<Page<AuditEntry>>;

    /// Whether a place's audit log is whole.
    async fn check_audit_log(&self, place: Where) -> Answer<AuditCheck>;

    /// The address from which the caller's browser can fetch a place's audit log: the REST address, without a query.
    fn audit_log_file(&self, place: Where) -> String;
}
