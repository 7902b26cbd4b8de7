//! The jobs that this site holds. A hold belongs to the site: while it lasts, nothing of the job is cleared, paid or
//! sent here, whatever the server states. The server is notified, so that the deadlines of the other participants are
//! suspended.

use rusqlite::{OptionalExtension, Row, params};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::SiteHold;

use super::store::{Store, StoreError};

/// The origin of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldOrigin {
    /// A person at the site's terminal, until they resume the job.
    Terminal,
    /// The worker, which waits for an approval or a refusal at the terminal.
    Worker,
}

impl HoldOrigin {
    /// Returns the text for the database and for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Worker => "worker",
        }
    }
}

/// A statement about a job: held, or resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHold {
    /// Its number at this site.
    pub id: i64,
    /// The statement, to be signed.
    pub word: SiteHold,
    /// Its origin: `terminal` or `worker`.
    pub by: String,
}

const HELD: &str = "SELECT id, job, dataset, manifest, hold, by, reason, at FROM hold";

/// Records a statement.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn record(store: &Store, word: &SiteHold, by: HoldOrigin) -> Result<(), StoreError> {
    let at = word.at.format(&Rfc3339).map_err(StoreError::row)?;
    store.write(|tx| {
        tx.execute(
            "INSERT INTO hold (job, dataset, manifest, hold, by, reason, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                word.job.to_string(),
                word.dataset.to_string(),
                word.manifest,
                word.hold,
                by.word(),
                word.reason,
                at
            ],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note a hold"))
    })
}

/// Returns the hold in force on a job's part here; `None` when it is not held.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn current_hold(store: &Store, job: JobId, dataset: DatasetId) -> Result<Option<StoredHold>, StoreError> {
    let row = store.read(|db| {
        db.query_row(
            &format!("{HELD} WHERE job = ?1 AND dataset = ?2 ORDER BY id DESC LIMIT 1"),
            params![job.to_string(), dataset.to_string()],
            read,
        )
        .optional()
        .map_err(StoreError::sqlite("read a hold"))
    })?;
    Ok(row.map(parse).transpose()?.filter(|held| held.word.hold))
}

/// Returns the statements that the server has not acknowledged, oldest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn pending_statements(store: &Store) -> Result<Vec<StoredHold>, StoreError> {
    store.read(|db| {
        let mut statement = db
            .prepare(&format!("{HELD} WHERE id NOT IN (SELECT hold FROM hold_told) ORDER BY id"))
            .map_err(StoreError::sqlite("read holds"))?;
        let rows = statement.query_map([], read).map_err(StoreError::sqlite("read holds"))?;
        rows.map(|row| parse(row.map_err(StoreError::sqlite("read holds"))?)).collect()
    })
}

/// Records that the server has a statement, or will never accept it.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn acknowledge(store: &Store, id: i64) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute("INSERT INTO hold_told (hold) VALUES (?1) ON CONFLICT DO NOTHING", [id])
            .map(|_| ())
            .map_err(StoreError::sqlite("note what was told"))
    })
}

/// Marks a statement to be sent to the server again.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn resend(store: &Store, id: i64) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute("DELETE FROM hold_told WHERE hold = ?1", [id])
            .map(|_| ())
            .map_err(StoreError::sqlite("note what is to be told"))
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, [String; 6], bool)> {
    Ok((row.get(0)?, [row.get(1)?, row.get(2)?, row.get(3)?, row.get(5)?, row.get(6)?, row.get(7)?], row.get(4)?))
}

fn parse(
    (id, [job, dataset, manifest, by, reason, at], hold): (i64, [String; 6], bool),
) -> Result<StoredHold, StoreError> {
    let word = SiteHold {
        manifest,
        job: job.parse().map_err(StoreError::row)?,
        dataset: dataset.parse().map_err(StoreError::row)?,
        hold,
        reason,
        at: OffsetDateTime::parse(&at, &Rfc3339).map_err(StoreError::row)?,
    };
    Ok(StoredHold { id, word, by })
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use undertone_api::signed::SiteHold;

    use super::{HoldOrigin, acknowledge, current_hold, pending_statements, record, resend};
    use crate::store::Store;
    use crate::testing::{JOB, OURS};

    fn word(hold: bool, reason: &str) -> SiteHold {
        let at = OffsetDateTime::UNIX_EPOCH;
        SiteHold { manifest: "one".to_owned(), job: JOB, dataset: OURS, hold, reason: reason.to_owned(), at }
    }

    #[test]
    fn last_statement_counts_and_is_sent_until_acknowledged() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        assert_eq!(current_hold(&store, JOB, OURS).expect("it is open"), None);
        record(&store, &word(true, "a fire drill"), HoldOrigin::Terminal).expect("it is open");
        let now = current_hold(&store, JOB, OURS).expect("it is open").expect("it is held");
        assert_eq!((now.by.as_str(), now.word.reason.as_str()), ("terminal", "a fire drill"));
        assert_eq!(pending_statements(&store).expect("it is open"), std::slice::from_ref(&now));
        acknowledge(&store, now.id).expect("it is open");
        assert_eq!(pending_statements(&store).expect("it is open"), []);
        resend(&store, now.id).expect("it is open");
        record(&store, &word(false, ""), HoldOrigin::Terminal).expect("it is open");
        assert_eq!(current_hold(&store, JOB, OURS).expect("it is open"), None);
        assert_eq!(pending_statements(&store).expect("it is open").len(), 2);
    }

    #[test]
    fn stored_statement_is_never_changed() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        record(&store, &word(true, "a fire drill"), HoldOrigin::Terminal).expect("it is open");
        let bend = store.write(|tx| {
            tx.execute("UPDATE hold SET hold = 0", []).map_err(crate::store::StoreError::sqlite("bend a hold"))
        });
        assert!(bend.is_err() && current_hold(&store, JOB, OURS).expect("it is open").is_some());
    }
}
