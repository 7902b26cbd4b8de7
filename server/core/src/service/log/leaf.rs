//! The leaves of records, computed from their rows.

use time::OffsetDateTime;
use undertone_api::log::LogLeaf;
use undertone_api::log::leaf::{AccountRecord, EntryRecord, LimitRecord, RestorationRecord, WorkerKeyRecord};
use undertone_api::signed::Signed;

use crate::model::{account, budget, key_event, ledger_entry, restoration};

/// Returns the leaf of a row of an account's ledger.
pub(crate) fn of_entry(row: &ledger_entry::Model) -> EntryRecord {
    EntryRecord {
        previous: row.previous.clone(),
        account: row.account_id,
        sequence: row.sequence,
        kind: row.kind.clone(),
        job: row.job_id,
        dataset: row.dataset_id,
        series: row.series.clone(),
        round: row.round,
        attempt: row.attempt,
        event: row.event.clone(),
        count: row.count,
        evaluator: row.evaluator.clone(),
        receipt: row.receipt.clone(),
        certificate: row.certificate.clone(),
        at_unix_milliseconds: milliseconds(row.at),
    }
}

/// Returns the leaf of an account.
pub(crate) fn of_account(row: &account::Model) -> LogLeaf {
    LogLeaf::Account(AccountRecord::new(
        [row.id, row.organization_id, row.lineage_id],
        [&row.unit, &row.adjacency, &row.observer],
        milliseconds(row.created_at),
    ))
}

/// Returns the leaf of a decision on a limit.
pub(crate) fn of_limit(row: &budget::Model) -> LogLeaf {
    LogLeaf::Limit(LimitRecord::new(
        [row.id, row.account_id, row.set_by],
        [row.epsilon, row.delta],
        &row.limits,
        milliseconds(row.set_at),
    ))
}

/// Returns the leaf of a statement of a restoration.
pub(crate) fn of_restoration(row: &restoration::Model) -> LogLeaf {
    let signed = Signed { payload: row.payload.clone(), signature: row.signature.clone() };
    LogLeaf::Restoration(RestorationRecord::new(signed.digest()))
}

/// Returns the leaf of an event of a worker's key; `None` for an unknown event.
pub(crate) fn of_key_event(row: &key_event::Model) -> Option<LogLeaf> {
    let event = row.event().ok()?;
    let ids = [row.worker_id, row.organization_id];
    let record = WorkerKeyRecord::new(ids, row.number, event, row.public_key.clone(), milliseconds(row.at));
    Some(LogLeaf::WorkerKey(record))
}

fn milliseconds(at: OffsetDateTime) -> i64 {
    (at.unix_timestamp_nanos() / 1_000_000) as i64
}
