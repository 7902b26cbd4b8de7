//! The promise of each account: the limits that admitted its rows, and the releases between them.

use std::collections::BTreeMap;

use undertone_api::budget::EntryKind;
use undertone_api::id::JobId;
use undertone_privacy::ledger::Promises;

use super::{AccountKey, LedgerEntry, OtherAccount};

/// Computes the promises of each account from the ledger's rows, in their order. A row acts on the account of the unit
/// that its job protects, and on the other accounts in the job's reservation.
pub fn promises(rows: &[LedgerEntry]) -> BTreeMap<AccountKey, Promises> {
    let mut all: BTreeMap<AccountKey, Promises> = BTreeMap::new();
    let mut charges: BTreeMap<(AccountKey, JobId), &[OtherAccount]> = BTreeMap::new();
    for row in rows {
        let others = *charges.entry((row.account, row.job)).or_insert(&row.others);
        let own = (row.account, row.budget);
        let beside = others.iter().map(|other| (row.account.for_unit(other.unit), Some(other.budget)));
        for (account, budget) in beside.chain([own]) {
            let promises = all.entry(account).or_default();
            match (row.kind, budget) {
                (EntryKind::Reserve, Some(budget)) => promises.set_limit(budget.epsilon(), budget.delta()),
                (EntryKind::Commit, _) => promises.release(),
                (EntryKind::Reserve | EntryKind::Settle, _) => {}
            }
        }
    }
    all
}
