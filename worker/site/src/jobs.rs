//! The jobs that this site has seen, its decisions on them, and the states of its runs.

mod settled;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::PartyTerms;
use undertone_api::signed::{Signed, SiteDecision};

use super::store::{Store, StoreError};
use crate::clock::format_time;

pub use settled::{remember_settled, settled_manifest};

/// The origin of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionOrigin {
    /// The policy file, or the ledger.
    Policy,
    /// A person at the site's terminal.
    Terminal,
}

impl DecisionOrigin {
    /// Returns the text for the database and for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Terminal => "terminal",
        }
    }
}

/// A decision on one manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDecision {
    /// Its number at this site.
    pub id: i64,
    /// The decision, to be signed.
    pub decision: SiteDecision,
    /// Its origin: `policy` or `terminal`.
    pub by: String,
}

/// A job as `undertone-worker jobs` shows it.
#[derive(Debug, Clone)]
pub struct JobRecord {
    /// The job.
    pub job: JobId,
    /// The dataset, by the server's id.
    pub dataset: DatasetId,
    /// The first manifest under its id.
    pub signed: Signed,
    /// Its digest.
    pub digest: String,
    /// The time when it was first seen (RFC 3339).
    pub seen_at: String,
    /// The last decision on it.
    pub decision: Option<StoredDecision>,
    /// The run here and its outcome, if there is one.
    pub run: Option<RunRow>,
}

/// A run as stored in its row.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// The last lease.
    pub lease: String,
    /// The outcome here; `None` while it runs.
    pub ended: Option<RunOutcome>,
    /// Whether the server has acknowledged the outcome.
    pub is_acknowledged: bool,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// Completed.
    Done {
        /// The lead's report as JSON; empty for all other parts.
        report: String,
        /// The statement about the audit, if the manifest promised one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audit: Option<Signed>,
    },
    /// Abandoned.
    GaveUp {
        /// The reason, which others may read.
        reason: String,
    },
    /// Ended by the server.
    Stopped {
        /// The server's reason.
        reason: String,
    },
}

/// Records the manifest under which a job was first seen. Returns the digest of the recorded one if it is another.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn remember(
    store: &Store,
    job: JobId,
    dataset: DatasetId,
    signed: &Signed,
    at: OffsetDateTime,
) -> Result<Option<String>, StoreError> {
    let digest = signed.digest();
    let first: String = store.write(|tx| {
        tx.execute(
            "INSERT INTO manifest (job, dataset, digest, payload, signature, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (job, dataset) DO NOTHING",
            params![job.to_string(), dataset.to_string(), digest, signed.payload, signed.signature, format_time(at)],
        )
        // A job has one manifest, regardless of the dataset for which it was first offered.
        .and_then(|_| {
            tx.query_row(
                "SELECT digest FROM manifest WHERE job = ?1 AND digest <> ?2 ORDER BY seen_at, dataset LIMIT 1",
                params![job.to_string(), digest],
                |row| row.get(0),
            )
            .optional()
        })
        .map(Option::unwrap_or_default)
        .map_err(StoreError::sqlite("note a manifest"))
    })?;
    Ok((!first.is_empty()).then_some(first))
}

/// Returns the digest of the manifest under which `job` was first seen here; `None` if it never was.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn first_manifest(store: &Store, job: JobId) -> Result<Option<String>, StoreError> {
    store.read(|db| {
        db.query_row(
            "SELECT digest FROM manifest WHERE job = ?1 ORDER BY seen_at, dataset LIMIT 1",
            [job.to_string()],
            |row| row.get(0),
        )
        .optional()
        .map_err(StoreError::sqlite("look for a manifest"))
    })
}

/// Records a decision.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn decide(store: &Store, decision: &SiteDecision, by: DecisionOrigin) -> Result<(), StoreError> {
    store.write(|tx| insert(tx, decision, by).map_err(StoreError::sqlite("note a decision")))
}

/// Records the policy's approval, to be sent. Records nothing and returns false when the terminal has decided on this
/// manifest.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn approve(store: &Store, yes: &SiteDecision) -> Result<bool, StoreError> {
    store.write(|tx| insert_unless_decided(tx, yes).map_err(StoreError::sqlite("note a decision")))
}

/// Records an approval as [`approve`] does, for work that the server already offers: the server need not be notified.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn note(store: &Store, yes: &SiteDecision) -> Result<bool, StoreError> {
    let record = |tx: &Connection| -> rusqlite::Result<bool> {
        let is_new = insert_unless_decided(tx, yes)?;
        if is_new {
            tx.execute("INSERT INTO told (decision) VALUES (?1)", [tx.last_insert_rowid()])?;
        }
        Ok(is_new)
    };
    store.write(|tx| record(tx).map_err(StoreError::sqlite("note a decision")))
}

/// Records the policy's decision unless the terminal has decided. Another process may write the terminal's decision at
/// any time.
fn insert_unless_decided(tx: &Connection, decision: &SiteDecision) -> rusqlite::Result<bool> {
    let is_decided: bool = tx.query_row(
        "SELECT EXISTS (SELECT 1 FROM decision WHERE job = ?1 AND dataset = ?2 AND manifest = ?3 AND by = ?4)",
        params![
            decision.job.to_string(),
            decision.dataset.to_string(),
            decision.manifest,
            DecisionOrigin::Terminal.word()
        ],
        |row| row.get(0),
    )?;
    if !is_decided {
        insert(tx, decision, DecisionOrigin::Policy)?;
    }
    Ok(!is_decided)
}

fn insert(tx: &Connection, decision: &SiteDecision, by: DecisionOrigin) -> rusqlite::Result<()> {
    let terms = if decision.terms.is_empty() {
        String::new()
    } else {
        serde_json::to_string(&decision.terms)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?
    };
    tx.execute(
        "INSERT INTO decision (job, dataset, manifest, approve, by, reason, at, terms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            decision.job.to_string(),
            decision.dataset.to_string(),
            decision.manifest,
            decision.approve,
            by.word(),
            decision.reason,
            format_time(decision.at),
            terms
        ],
    )
    .map(|_| ())
}

const DECISION: &str = "SELECT id, job, dataset, manifest, approve, by, reason, at, terms FROM decision";

fn decision_row(row: &Row<'_>) -> rusqlite::Result<(i64, [String; 7], bool)> {
    let text = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?];
    Ok((row.get(0)?, text, row.get(4)?))
}

fn parse_decision(
    (id, [job, dataset, manifest, by, reason, at, terms], approve): (i64, [String; 7], bool),
) -> Result<StoredDecision, StoreError> {
    let terms =
        if terms.is_empty() { PartyTerms::default() } else { serde_json::from_str(&terms).map_err(StoreError::row)? };
    let decision = SiteDecision {
        manifest,
        job: job.parse().map_err(StoreError::row)?,
        dataset: dataset.parse().map_err(StoreError::row)?,
        approve,
        reason,
        terms,
        at: OffsetDateTime::parse(&at, &Rfc3339).map_err(StoreError::row)?,
    };
    Ok(StoredDecision { id, decision, by })
}

/// Returns the last decision on exactly this manifest.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn decision(
    store: &Store,
    job: JobId,
    dataset: DatasetId,
    manifest: &str,
) -> Result<Option<StoredDecision>, StoreError> {
    last_decision(store, job, dataset, manifest, None)
}

/// Returns the terminal's last decision on exactly this manifest, regardless of later decisions of the policy.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn terminal_decision(
    store: &Store,
    job: JobId,
    dataset: DatasetId,
    manifest: &str,
) -> Result<Option<StoredDecision>, StoreError> {
    last_decision(store, job, dataset, manifest, Some(DecisionOrigin::Terminal))
}

fn last_decision(
    store: &Store,
    job: JobId,
    dataset: DatasetId,
    manifest: &str,
    by: Option<DecisionOrigin>,
) -> Result<Option<StoredDecision>, StoreError> {
    let of = "job = ?1 AND dataset = ?2 AND manifest = ?3 AND (?4 IS NULL OR by = ?4)";
    let row = store.read(|db| {
        db.query_row(
            &format!("{DECISION} WHERE {of} ORDER BY id DESC LIMIT 1"),
            params![job.to_string(), dataset.to_string(), manifest, by.map(DecisionOrigin::word)],
            decision_row,
        )
        .optional()
        .map_err(StoreError::sqlite("read a decision"))
    })?;
    row.map(parse_decision).transpose()
}

/// Returns the decisions that the server has not acknowledged, oldest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn pending_decisions(store: &Store) -> Result<Vec<StoredDecision>, StoreError> {
    store.read(|db| {
        let mut statement = db
            .prepare(&format!("{DECISION} WHERE id NOT IN (SELECT decision FROM told) ORDER BY id"))
            .map_err(StoreError::sqlite("read decisions"))?;
        let rows = statement.query_map([], decision_row).map_err(StoreError::sqlite("read decisions"))?;
        rows.map(|row| parse_decision(row.map_err(StoreError::sqlite("read decisions"))?)).collect()
    })
}

/// Records that the server has a decision.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn acknowledge(store: &Store, decision: i64) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute("INSERT INTO told (decision) VALUES (?1) ON CONFLICT DO NOTHING", [decision])
            .map(|_| ())
            .map_err(StoreError::sqlite("note what was told"))
    })
}

/// Marks a decision to be sent to the server again.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn resend(store: &Store, decision: i64) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute("DELETE FROM told WHERE decision = ?1", [decision])
            .map(|_| ())
            .map_err(StoreError::sqlite("note what is to be told"))
    })
}

/// Returns every job ever seen here, newest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn list_jobs(store: &Store) -> Result<Vec<JobRecord>, StoreError> {
    let rows: Vec<[String; 6]> = store.read(|db| {
        let mut statement = db
            .prepare(
                "SELECT job, dataset, payload, signature, digest, seen_at FROM manifest ORDER BY seen_at DESC, job",
            )
            .map_err(StoreError::sqlite("read jobs"))?;
        let rows = statement
            .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?]))
            .map_err(StoreError::sqlite("read jobs"))?;
        rows.collect::<Result<_, _>>().map_err(StoreError::sqlite("read jobs"))
    })?;
    rows.into_iter()
        .map(|[job, dataset, payload, signature, digest, seen_at]| {
            let (job, dataset) = (job.parse().map_err(StoreError::row)?, dataset.parse().map_err(StoreError::row)?);
            let decision = decision(store, job, dataset, &digest)?;
            let run = run(store, job, dataset)?;
            Ok(JobRecord { job, dataset, signed: Signed { payload, signature }, digest, seen_at, decision, run })
        })
        .collect()
}

/// Records the lease under which a run continues.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn record_start(store: &Store, job: JobId, dataset: DatasetId, lease: &str) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO run (job, dataset, lease) VALUES (?1, ?2, ?3)
             ON CONFLICT (job, dataset) DO UPDATE SET lease = excluded.lease",
            params![job.to_string(), dataset.to_string(), lease],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note a run"))
    })
}

/// Records the outcome of a run, before the server is notified.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn record_outcome(store: &Store, job: JobId, dataset: DatasetId, outcome: &RunOutcome) -> Result<(), StoreError> {
    let outcome = serde_json::to_string(outcome).map_err(StoreError::row)?;
    store.write(|tx| {
        tx.execute(
            "UPDATE run SET ended = ?3 WHERE job = ?1 AND dataset = ?2",
            params![job.to_string(), dataset.to_string(), outcome],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note the end of a run"))
    })
}

/// Records that the server has the outcome of a run.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn acknowledge_outcome(store: &Store, job: JobId, dataset: DatasetId) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "UPDATE run SET told = 1 WHERE job = ?1 AND dataset = ?2",
            params![job.to_string(), dataset.to_string()],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note the end of a run"))
    })
}

/// Returns one run.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn run(store: &Store, job: JobId, dataset: DatasetId) -> Result<Option<RunRow>, StoreError> {
    let row: Option<(String, Option<String>, bool)> = store.read(|db| {
        db.query_row(
            "SELECT lease, ended, told FROM run WHERE job = ?1 AND dataset = ?2",
            params![job.to_string(), dataset.to_string()],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()
        .map_err(StoreError::sqlite("read a run"))
    })?;
    row.map(|(lease, ended, is_acknowledged)| {
        let ended = ended.map(|text| serde_json::from_str(&text).map_err(StoreError::row)).transpose()?;
        Ok(RunRow { lease, ended, is_acknowledged })
    })
    .transpose()
}

/// Returns the runs that began here and have not ended: job, dataset, last lease.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn open_runs(store: &Store) -> Result<Vec<(JobId, DatasetId, String)>, StoreError> {
    let rows: Vec<[String; 3]> = store.read(|db| {
        let mut statement = db
            .prepare("SELECT job, dataset, lease FROM run WHERE ended IS NULL")
            .map_err(StoreError::sqlite("read runs"))?;
        let rows = statement
            .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
            .map_err(StoreError::sqlite("read runs"))?;
        rows.collect::<Result<_, _>>().map_err(StoreError::sqlite("read runs"))
    })?;
    rows.into_iter()
        .map(|[job, dataset, lease]| {
            Ok((job.parse().map_err(StoreError::row)?, dataset.parse().map_err(StoreError::row)?, lease))
        })
        .collect()
}

/// Returns the runs that stopped here and whose end the server has not acknowledged: job, dataset, run.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn unacknowledged_stops(store: &Store) -> Result<Vec<(JobId, DatasetId, RunRow)>, StoreError> {
    let rows: Vec<[String; 4]> = store.read(|db| {
        let mut statement = db
            .prepare("SELECT job, dataset, lease, ended FROM run WHERE ended IS NOT NULL AND NOT told")
            .map_err(StoreError::sqlite("read runs"))?;
        let rows = statement
            .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))
            .map_err(StoreError::sqlite("read runs"))?;
        rows.collect::<Result<_, _>>().map_err(StoreError::sqlite("read runs"))
    })?;
    let mut stops = Vec::new();
    for [job, dataset, lease, ended] in rows {
        let outcome: RunOutcome = serde_json::from_str(&ended).map_err(StoreError::row)?;
        if matches!(outcome, RunOutcome::Stopped { .. }) {
            let run = RunRow { lease, ended: Some(outcome), is_acknowledged: false };
            stops.push((job.parse().map_err(StoreError::row)?, dataset.parse().map_err(StoreError::row)?, run));
        }
    }
    Ok(stops)
}

#[cfg(test)]
mod tests;
