//! The hash chain of an account: each row's hash covers the row and the previous hash. A changed, missing or inserted
//! row invalidates every later hash.

use sha2::{Digest as _, Sha256};

use crate::model::ledger_entry;
use crate::service::log::leaf::of_entry;

/// Returns the hash before the first row.
pub(crate) fn origin() -> String {
    hex::encode(Sha256::digest(b""))
}

/// Returns the hash of a row over all fields except its hash, hex.
pub(crate) fn hash(row: &ledger_entry::Model) -> String {
    of_entry(row).hash()
}

/// Returns the first row, by sequence, at which the chain is invalid; `None` when it is valid from the origin to the
/// end.
pub(crate) fn broken_at(rows: &[ledger_entry::Model]) -> Option<i64> {
    let mut previous = origin();
    for (row, expected) in rows.iter().zip(1_i64..) {
        if row.sequence != expected || row.previous != previous || row.hash != hash(row) {
            return Some(expected);
        }
        previous.clone_from(&row.hash);
    }
    None
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{broken_at, hash, origin};
    use crate::model::ledger_entry;

    fn rows() -> Vec<ledger_entry::Model> {
        let mut rows: Vec<ledger_entry::Model> = Vec::new();
        for sequence in 1..=3 {
            let mut row = ledger_entry::Model {
                account_id: Uuid::nil(),
                sequence,
                kind: "commit".to_owned(),
                job_id: Uuid::nil(),
                dataset_id: Uuid::nil(),
                series: Some("private".to_owned()),
                round: Some(1),
                attempt: Some(1),
                event: r#"{"event":"non_private"}"#.to_owned(),
                count: 1,
                evaluator: "rdp-1".to_owned(),
                receipt: None,
                previous: rows.last().map_or_else(origin, |row| row.hash.clone()),
                hash: String::new(),
                at: OffsetDateTime::UNIX_EPOCH,
                certificate: None,
            };
            row.hash = hash(&row);
            rows.push(row);
        }
        rows
    }

    #[test]
    fn an_untouched_chain_holds() {
        assert_eq!(broken_at(&rows()), None);
        assert_eq!(broken_at(&[]), None);
    }

    #[test]
    fn a_changed_row_a_missing_row_and_a_rehashed_row_are_found() {
        let mut changed = rows();
        changed[1].count = 0;
        assert_eq!(broken_at(&changed), Some(2));
        changed[1].hash = hash(&changed[1]);
        assert_eq!(broken_at(&changed), Some(3));
        let mut shorter = rows();
        shorter.remove(0);
        assert_eq!(broken_at(&shorter), Some(1));
    }
}
