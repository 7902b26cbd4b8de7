//! Rows that are not in the log: inserted into a table behind the server's back, or left after their leaf was removed.

use sea_orm::{ConnectionTrait as _, DbErr, QueryResult, Statement};
use uuid::Uuid;

use super::LineSink;
use crate::db::Tx;
use crate::error::Error;

/// The highest number of rows of each kind that are named.
const NAMED: usize = 20;

/// A query whose result should be empty.
struct ReferenceQuery {
    sql: &'static str,
    /// Columns that name the row: ids first, then numbers.
    ids: &'static [&'static str],
    numbers: &'static [&'static str],
    name: &'static str,
    what: &'static str,
}

const QUESTIONS: [ReferenceQuery; 8] = [
    ReferenceQuery {
        sql: "SELECT e.account_id, e.sequence FROM ledger_entry e WHERE NOT EXISTS (SELECT 1 FROM log_leaf l \
              WHERE l.account_id = e.account_id AND l.sequence = e.sequence) ORDER BY e.account_id, e.sequence",
        ids: &["account_id"],
        numbers: &["sequence"],
        name: "ledger row: account, row",
        what: "it is not in the log",
    },
    ReferenceQuery {
        sql: "SELECT a.id FROM account a WHERE NOT EXISTS (SELECT 1 FROM log_leaf l WHERE l.account_id = a.id \
              AND l.kind = 'account') ORDER BY a.id",
        ids: &["id"],
        numbers: &[],
        name: "account",
        what: "it is not in the log",
    },
    ReferenceQuery {
        sql: "SELECT b.account_id, b.id FROM budget b WHERE NOT EXISTS (SELECT 1 FROM log_leaf l \
              WHERE l.account_id = b.account_id AND l.budget_id = b.id) ORDER BY b.id",
        ids: &["account_id", "id"],
        numbers: &[],
        name: "limit: account, limit",
        what: "it is not in the log",
    },
    ReferenceQuery {
        sql: "SELECT r.worker_id, r.sequence FROM receipt r WHERE NOT EXISTS (SELECT 1 FROM ledger_entry e \
              WHERE e.receipt = r.digest) ORDER BY r.worker_id, r.sequence",
        ids: &["worker_id"],
        numbers: &["sequence"],
        name: "receipt: worker, number",
        what: "no ledger row charges it",
    },
    ReferenceQuery {
        sql: "SELECT r.worker_id, r.sequence FROM receipt r WHERE NOT EXISTS (SELECT 1 FROM countersignature c \
              WHERE c.worker_id = r.worker_id AND c.sequence = r.sequence) ORDER BY r.worker_id, r.sequence",
        ids: &["worker_id"],
        numbers: &["sequence"],
        name: "receipt: worker, number",
        what: "it is not countersigned",
    },
    ReferenceQuery {
        sql: "SELECT c.worker_id, c.sequence FROM countersignature c WHERE NOT EXISTS (SELECT 1 FROM receipt r \
              WHERE r.worker_id = c.worker_id AND r.sequence = c.sequence) ORDER BY c.worker_id, c.sequence",
        ids: &["worker_id"],
        numbers: &["sequence"],
        name: "countersignature: worker, number",
        what: "its receipt is missing",
    },
    ReferenceQuery {
        sql: "SELECT p.job_id, p.dataset_id FROM participant p JOIN reservation r ON r.job_id = p.job_id \
              AND r.dataset_id = p.dataset_id WHERE r.committed <> p.releases ORDER BY p.job_id, p.dataset_id",
        ids: &["job_id", "dataset_id"],
        numbers: &[],
        name: "participant: job, dataset",
        what: "its count of releases is not what was paid",
    },
    ReferenceQuery {
        sql: "SELECT a.place_id, a.number FROM audit_log a WHERE NOT EXISTS (SELECT 1 FROM audit_seal s \
              WHERE s.place = a.place AND s.place_id = a.place_id AND s.number = a.number) AND NOT EXISTS \
              (SELECT 1 FROM audit_pending p WHERE p.place = a.place AND p.place_id = a.place_id \
              AND p.number = a.number) ORDER BY a.place_id, a.number",
        ids: &["place_id"],
        numbers: &["number"],
        name: "audit entry: place, number",
        what: "it is not in the log",
    },
];

/// Runs every query, and reports each row that it returns.
pub(super) async fn find(tx: &Tx, sink: &mut impl LineSink) -> Result<(), Error> {
    for question in QUESTIONS {
        let sql = format!("{} LIMIT {NAMED}", question.sql);
        for row in tx.query_all_raw(Statement::from_string(tx.get_database_backend(), sql)).await? {
            sink.report_defect(format!("{} {}", question.name, describe_row(&row, &question)?), question.what);
        }
    }
    Ok(())
}

fn describe_row(row: &QueryResult, question: &ReferenceQuery) -> Result<String, DbErr> {
    let mut words = Vec::new();
    for id in question.ids {
        words.push(row.try_get::<Uuid>("", id)?.to_string());
    }
    for number in question.numbers {
        words.push(row.try_get::<i64>("", number)?.to_string());
    }
    Ok(words.join(", "))
}
