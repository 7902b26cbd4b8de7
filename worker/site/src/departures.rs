//! The jobs that this site has left. A departure is final: from then on nothing of the job is cleared, paid or sent
//! here, whatever the server states, and the part ends with the settlement of its reservation. The server is notified,
//! so that no round waits for this site.

use rusqlite::{OptionalExtension, Row, params};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::SiteDeparture;

use super::store::{Store, StoreError};
use crate::clock::format_time;

const DEPARTURE: &str = "SELECT job, dataset, manifest, reason, at FROM departure";

/// Records a departure; durable when this returns. Returns false, and changes nothing, if the site has left already.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn record(store: &Store, departure: &SiteDeparture) -> Result<bool, StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO departure (job, dataset, manifest, reason, at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (job, dataset) DO NOTHING",
            params![
                departure.job.to_string(),
                departure.dataset.to_string(),
                departure.manifest,
                departure.reason,
                format_time(departure.at)
            ],
        )
        .map(|rows| rows > 0)
        .map_err(StoreError::sqlite("note a departure"))
    })
}

/// Returns the departure of a dataset from a job; `None` if it has not left.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn departure(store: &Store, job: JobId, dataset: DatasetId) -> Result<Option<SiteDeparture>, StoreError> {
    let row = store.read(|db| {
        db.query_row(
            &format!("{DEPARTURE} WHERE job = ?1 AND dataset = ?2"),
            params![job.to_string(), dataset.to_string()],
            read,
        )
        .optional()
        .map_err(StoreError::sqlite("read a departure"))
    })?;
    row.map(parse).transpose()
}

/// Returns the departures that the server has not acknowledged, oldest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn pending_departures(store: &Store) -> Result<Vec<SiteDeparture>, StoreError> {
    store.read(|db| {
        let mut statement = db
            .prepare(&format!(
                "{DEPARTURE} WHERE NOT EXISTS (SELECT 1 FROM departure_told AS told
                 WHERE told.job = departure.job AND told.dataset = departure.dataset) ORDER BY at, job, dataset"
            ))
            .map_err(StoreError::sqlite("read departures"))?;
        let rows = statement.query_map([], read).map_err(StoreError::sqlite("read departures"))?;
        rows.map(|row| parse(row.map_err(StoreError::sqlite("read departures"))?)).collect()
    })
}

/// Records that the server has a departure, or will never accept it.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn acknowledge(store: &Store, job: JobId, dataset: DatasetId) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO departure_told (job, dataset) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![job.to_string(), dataset.to_string()],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note a sent departure"))
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<[String; 5]> {
    Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
}

fn parse([job, dataset, manifest, reason, at]: [String; 5]) -> Result<SiteDeparture, StoreError> {
    Ok(SiteDeparture {
        manifest,
        job: job.parse().map_err(StoreError::row)?,
        dataset: dataset.parse().map_err(StoreError::row)?,
        reason,
        at: OffsetDateTime::parse(&at, &Rfc3339).map_err(StoreError::row)?,
    })
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use undertone_api::signed::SiteDeparture;

    use super::{acknowledge, departure, pending_departures, record};
    use crate::store::{Store, StoreError};
    use crate::testing::{JOB, OURS};

    #[test]
    fn departure_is_final_and_sent_until_acknowledged() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        assert_eq!(departure(&store, JOB, OURS).expect("it is open"), None);
        let at = OffsetDateTime::UNIX_EPOCH;
        let first = SiteDeparture {
            manifest: "one".to_owned(),
            job: JOB,
            dataset: OURS,
            reason: "the study has ended".to_owned(),
            at,
        };
        assert!(record(&store, &first).expect("it is open"));
        let second = SiteDeparture { reason: "another".to_owned(), ..first.clone() };
        assert!(!record(&store, &second).expect("it is open"), "a site leaves once");
        assert_eq!(departure(&store, JOB, OURS).expect("it is open"), Some(first.clone()));
        assert_eq!(pending_departures(&store).expect("it is open"), [first]);
        for change in ["UPDATE departure SET reason = ''", "DELETE FROM departure"] {
            let result = store.write(|tx| tx.execute(change, []).map_err(StoreError::sqlite("bend a departure")));
            result.expect_err("a table of record");
        }
        acknowledge(&store, JOB, OURS).expect("it is open");
        assert_eq!(pending_departures(&store).expect("it is open"), []);
        assert!(departure(&store, JOB, OURS).expect("it is open").is_some());
    }
}
