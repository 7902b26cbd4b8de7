//! Rules that the simulation breaks on purpose: the auditors must detect every one.

use std::path::Path;

use rusqlite::Connection;
use sha2::{Digest as _, Sha256};
use undertone_worker::daemon::Submission;

use super::Failed;
use super::dice::ScheduleRng;

/// A broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenRule {
    /// A site's vector leaves before it is paid.
    SendBeforeCommit,
    /// A site draws new noise when it sends again.
    FreshNoiseForOnePayment,
    /// The server counts a repeated receipt a second time.
    RepeatedReportCounted,
    /// The server grants a lease without a reservation.
    LeaseWithoutReservation,
    /// The server loses the spending of an account.
    BalanceForgotten,
    /// A row of the server's ledger is removed.
    RowRemoved,
    /// A row of a site's ledger is changed.
    RowChanged,
    /// A site returns more releases than remain.
    ReturnedTooMuch,
    /// A site continues with an older copy of its ledger without comparing it.
    RestoreIsNotCompared,
}

impl BrokenRule {
    /// All rules.
    pub const ALL: [Self; 9] = [
        Self::SendBeforeCommit,
        Self::FreshNoiseForOnePayment,
        Self::RepeatedReportCounted,
        Self::LeaseWithoutReservation,
        Self::BalanceForgotten,
        Self::RowRemoved,
        Self::RowChanged,
        Self::ReturnedTooMuch,
        Self::RestoreIsNotCompared,
    ];

    /// Breaks the rule in the files, if it concerns files; returns true when there was something to break.
    pub(super) fn strike(self, data: &Path, site: &Path) -> Result<bool, Failed> {
        let (server, site) = (data.join("undertone.sqlite"), site.join("ledger.db"));
        let (file, sql) = match self {
            Self::SendBeforeCommit | Self::FreshNoiseForOnePayment | Self::RestoreIsNotCompared => return Ok(false),
            Self::RepeatedReportCounted => (
                server,
                "DROP INDEX ledger_entry_receipt;
                 INSERT INTO ledger_entry (account_id, sequence, kind, job_id, dataset_id, series, round, attempt, event, count,
                                           evaluator, receipt, previous, hash, at)
                 SELECT account_id, sequence + 1000, kind, job_id, dataset_id, series, round, attempt, event, count,
                        evaluator, receipt, previous, hash, at FROM ledger_entry WHERE kind = 'commit' LIMIT 1",
            ),
            Self::LeaseWithoutReservation => (
                server,
                "INSERT INTO lease (job_id, dataset_id, worker_id, token, number, granted_at, expires_at)
                 SELECT p.job_id, p.dataset_id, p.worker_id, 'token', 1, j.created_at, j.created_at
                 FROM participant p JOIN job j ON j.id = p.job_id
                 WHERE p.charge IS NOT NULL AND j.state = 'proposed' LIMIT 1",
            ),
            Self::BalanceForgotten => (
                server,
                "UPDATE account SET balance = (SELECT a.balance FROM account a WHERE a.entries = 0 LIMIT 1)
                 WHERE entries > 0 AND EXISTS (SELECT 1 FROM account a WHERE a.entries = 0)",
            ),
            Self::RowRemoved => (server, "DELETE FROM ledger_entry WHERE kind = 'commit'"),
            Self::RowChanged => (site, "UPDATE entry SET payload = replace(payload, '\"commit\"', '\"settle\"') WHERE kind = 'commit'"),
            Self::ReturnedTooMuch => (
                site,
                "UPDATE entry SET payload = json_set(payload, '$.count', json_extract(payload, '$.count') + 1)
                 WHERE kind = 'settle'",
            ),
        };
        let db = Connection::open(file)?;
        // Write access to the file includes dropping its triggers.
        let names: Vec<String> = db
            .prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let before: i64 = db.query_row("SELECT total_changes()", [], |row| row.get(0))?;
        db.execute_batch("BEGIN IMMEDIATE")?;
        for name in names {
            db.execute_batch(&format!("DROP TRIGGER \"{name}\""))?;
        }
        db.execute_batch(sql)?;
        let struck = db.query_row("SELECT total_changes()", [], |row| row.get::<_, i64>(0))? > before;
        db.execute_batch(if struck { "COMMIT" } else { "ROLLBACK" })?;
        Ok(struck)
    }
}

/// Replaces the bits under the same payment.
pub(super) fn draw_again(letter: &mut Submission, dice: &mut ScheduleRng) {
    for number in letter.parcel.bytes.chunks_mut(size_of::<f32>()) {
        number.copy_from_slice(&(dice.below(1000) as f32).to_le_bytes());
    }
    letter.parcel.digest = hex::encode(Sha256::digest(&letter.parcel.bytes));
}
