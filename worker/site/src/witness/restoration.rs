//! Restorations of the server. A site accepts the server's signed statement once, when the restored log continues the
//! last head that the site verified before it, and then returns the receipts that the server lost.
//!
//! A server that lost them cannot prove the leaves between that head and the end of the restored log. The site's own
//! receipts can: those countersigned for a position in the restored log must stand there again.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use time::OffsetDateTime;
use undertone_api::id::DatasetId;
use undertone_api::log::witness::{MOST_RECEIPTS, WitnessAnswer, WitnessError};
use undertone_api::signed::{LogHead, Restoration, Signed, SigningAuthority};

use super::alarm;
use super::{ServerContradiction, WitnessQuestion, WitnessVerdict, contradicts, evidence, join_hashes};
use crate::clock::format_time;
use crate::store::{Store, StoreError, sql};

/// A restoration that this site has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedRestoration {
    /// The server's statement.
    pub statement: Restoration,
    /// The number of this site's receipts that the server has accepted and charged again.
    pub returned: u64,
    /// The time since which the server has every receipt of this site again (RFC 3339); `None` until then.
    pub finished_at: Option<String>,
}

/// Receipts that are returned to the server in one request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReturnBatch {
    /// The jobs of the receipts.
    pub parts: Vec<ReturnedPart>,
    /// Numbers of the receipts.
    pub numbers: Vec<u64>,
    /// The receipts, oldest first.
    pub receipts: Vec<Signed>,
    /// The last head that the site verified before the restoration.
    pub head: Option<Signed>,
}

impl ReturnBatch {
    /// Returns whether the server has every receipt of this site.
    pub const fn is_complete(&self) -> bool {
        self.receipts.is_empty()
    }
}

/// A job whose receipts are returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedPart {
    /// The manifest, as the server signed it.
    pub manifest: Signed,
    /// The site's dataset in it.
    pub dataset: DatasetId,
    /// Whether the part has ended here and no further batch contains its receipts.
    pub has_ended: bool,
}

/// Returns the digest of the last statement that this site has accepted.
pub(super) fn last_accepted(db: &Connection) -> Result<Option<String>, StoreError> {
    db.query_row("SELECT digest FROM server_restoration ORDER BY id DESC LIMIT 1", [], |row| row.get(0))
        .optional()
        .map_err(StoreError::sqlite("read restorations of the server"))
}

/// Returns the last receipt in the restored log of the epoch; 0 when no restoration began the epoch.
pub(super) fn last_restored_receipt(db: &Connection, epoch: i64) -> Result<u64, StoreError> {
    db.query_row("SELECT COALESCE(MAX(kept), 0) FROM server_restoration WHERE epoch = ?1", [epoch], |row| {
        Ok(row.get::<_, i64>(0)? as u64)
    })
    .map_err(StoreError::sqlite("read restorations of the server"))
}

/// Returns the answer's restorations that this site has not accepted, as an answer; `None` when there are none.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn new_restorations(store: &Store, answer: &WitnessAnswer) -> Result<Option<WitnessAnswer>, StoreError> {
    let mut news = Vec::new();
    for restoration in &answer.restorations {
        let is_known: bool = store.read(|db| {
            let sql = "SELECT EXISTS (SELECT 1 FROM server_restoration WHERE digest = ?1)";
            db.query_row(sql, [restoration.statement.digest()], |row| row.get(0))
                .map_err(StoreError::sqlite("read restorations of the server"))
        })?;
        if !is_known {
            news.push(restoration.clone());
        }
    }
    if news.is_empty() {
        return Ok(None);
    }
    Ok(Some(WitnessAnswer { head: answer.head.clone(), restorations: news, ..WitnessAnswer::default() }))
}

/// Returns the question with the last verified head that the restored log must contain. Returns the same question when
/// the server lost nothing that this site saw, or when the statement is not the server's.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn rebase(
    store: &Store,
    key: &dyn SigningAuthority,
    question: &WitnessQuestion,
    answer: &WitnessAnswer,
) -> Result<WitnessQuestion, StoreError> {
    let Some(Ok(first)) = answer.restorations.first().map(|restoration| restoration.open(key)) else {
        return Ok(question.clone());
    };
    let last = store.read(|db| last_head_within(db, question.epoch, first.size))?;
    Ok(WitnessQuestion { known: last, ..question.clone() })
}

/// Returns the largest verified head of at most `size` leaves, of this epoch or of those that it continues.
fn last_head_within(db: &Connection, epoch: i64, size: u64) -> Result<Option<Signed>, StoreError> {
    let read = |error| StoreError::sqlite("read heads")(error);
    let (mut epoch, mut limit) = (epoch, size);
    loop {
        let head = db
            .query_row(
                "SELECT payload, signature FROM head WHERE epoch = ?1 AND size <= ?2 ORDER BY size DESC LIMIT 1",
                params![epoch, sql(limit)],
                |row| Ok(Signed { payload: row.get(0)?, signature: row.get(1)? }),
            )
            .optional()
            .map_err(read)?;
        if head.is_some() {
            return Ok(head);
        }
        let began = db
            .query_row("SELECT size FROM server_restoration WHERE epoch = ?1", [epoch], |row| row.get::<_, i64>(0))
            .optional()
            .map_err(read)?;
        // An epoch that a steward began continues nothing.
        let Some(began) = began else { return Ok(None) };
        (epoch, limit) = (epoch - 1, limit.min(began as u64));
    }
}

/// Judges restorations in the answer to a rebased question: accepts them, or raises an alarm with the documents.
///
/// # Errors
/// [`StoreError`] when the database fails. Nothing is stored then.
pub fn judge(
    store: &Store,
    key: &dyn SigningAuthority,
    question: &WitnessQuestion,
    answer: &WitnessAnswer,
    at: OffsetDateTime,
) -> Result<WitnessVerdict, StoreError> {
    let last: Option<LogHead> = question
        .known
        .as_ref()
        .map(|signed| serde_json::from_str(&signed.payload).map_err(StoreError::row))
        .transpose()?;
    match verify(store, key, last.as_ref(), answer)? {
        Ok((head, statements)) => {
            store.write(|tx| accept(tx, question, answer, &head, &statements, at))?;
            Ok(WitnessVerdict::Holds(0))
        }
        Err(contradiction) => contradicts(store, contradiction, &evidence::answer_evidence(question, answer), at),
    }
}

/// Verified restorations, oldest first, with the head that they are proved in.
type VerifiedRestorations = (LogHead, Vec<Restoration>);

fn verify(
    store: &Store,
    key: &dyn SigningAuthority,
    known: Option<&LogHead>,
    answer: &WitnessAnswer,
) -> Result<Result<VerifiedRestorations, ServerContradiction>, StoreError> {
    let outcome = (|| {
        let witnessed = answer.check(key, known, &std::collections::BTreeMap::new())?;
        let head = witnessed.head.ok_or_else(|| WitnessError::Malformed("a restoration without a head".to_owned()))?;
        let checked = answer.restorations.iter().map(|restoration| restoration.check(key, &head));
        let statements = checked.collect::<Result<Vec<_>, _>>()?;
        Ok::<VerifiedRestorations, WitnessError>((head, statements))
    })();
    let (head, statements) = match outcome {
        Ok(verified) => verified,
        Err(error) => return Ok(Err(error.into())),
    };
    let last = store.read(accepted_restorations)?.pop().map(|accepted| accepted.statement.at);
    let times: Vec<OffsetDateTime> = last.into_iter().chain(statements.iter().map(|statement| statement.at)).collect();
    if times.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Ok(Err(ServerContradiction::Restoration));
    }
    Ok(Ok((head, statements)))
}

fn accept(
    tx: &Transaction<'_>,
    question: &WitnessQuestion,
    answer: &WitnessAnswer,
    head: &LogHead,
    statements: &[Restoration],
    at: OffsetDateTime,
) -> Result<(), StoreError> {
    let write = |error| StoreError::sqlite("keep a restoration of the server")(error);
    let size = statements.iter().map(|statement| statement.size).min().unwrap_or_default();
    let last: i64 = tx
        .query_row(
            "SELECT COALESCE(MAX(receipt), 0) FROM countersignature
             WHERE epoch = ?1 AND json_extract(payload, '$.position') < ?2",
            params![question.epoch, sql(size)],
            |row| row.get(0),
        )
        .map_err(write)?;
    let mut epoch = question.epoch;
    for (statement, restoration) in statements.iter().zip(&answer.restorations) {
        epoch += 1;
        let Signed { payload, signature } = &restoration.statement;
        tx.execute(
            "INSERT INTO server_restoration (epoch, digest, payload, signature, size, kept, receipts, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT COALESCE(MAX(sequence), 0) FROM receipt), ?7)",
            params![
                epoch,
                restoration.statement.digest(),
                payload,
                signature,
                sql(statement.size),
                last,
                format_time(at)
            ],
        )
        .map_err(write)?;
    }
    if let Some(signed) = &answer.head {
        tx.execute(
            "INSERT INTO head (epoch, size, payload, signature, consistency, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                epoch,
                sql(head.size),
                signed.payload,
                signed.signature,
                join_hashes(&answer.consistency),
                format_time(at)
            ],
        )
        .map_err(write)?;
    }
    Ok(())
}

/// Returns every restoration that this site has accepted, oldest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn accepted_restorations(db: &Connection) -> Result<Vec<AcceptedRestoration>, StoreError> {
    let read = |error| StoreError::sqlite("read restorations of the server")(error);
    let mut statement = db
        .prepare(
            "SELECT payload, (SELECT COUNT(*) FROM proof WHERE proof.epoch = server_restoration.epoch
                AND proof.position > server_restoration.size AND proof.receipt <= server_restoration.receipts),
                (SELECT at FROM server_reconciled WHERE restoration = server_restoration.id)
             FROM server_restoration ORDER BY id",
        )
        .map_err(read)?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? as u64, row.get(2)?)))
        .map_err(read)?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(read)?;
    let accepted = rows.into_iter().map(|(payload, returned, finished_at)| {
        let statement = serde_json::from_str(&payload).map_err(StoreError::row)?;
        Ok(AcceptedRestoration { statement, returned, finished_at })
    });
    accepted.collect()
}

/// Returns the next receipts to return to the server: those without a proof in this epoch. Empty when the server has
/// all of them.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn next_batch(store: &Store) -> Result<ReturnBatch, StoreError> {
    store.read(|db| {
        let (epoch, _) = alarm::epoch(db)?;
        let read = |error| StoreError::sqlite("look for receipts to give back")(error);
        let mut statement = db
            .prepare(
                "SELECT sequence, payload, signature, job, dataset FROM receipt
                 WHERE sequence NOT IN (SELECT receipt FROM proof WHERE epoch = ?1) ORDER BY sequence LIMIT ?2",
            )
            .map_err(read)?;
        let rows = statement
            .query_map(params![epoch, sql(MOST_RECEIPTS as u64)], |row| {
                let signed = Signed { payload: row.get(1)?, signature: row.get(2)? };
                Ok((row.get::<_, i64>(0)? as u64, signed, row.get::<_, String>(3)?, row.get::<_, String>(4)?))
            })
            .map_err(read)?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(read)?;
        let mut batch = ReturnBatch { head: head_before(db, epoch)?, ..ReturnBatch::default() };
        let last = rows.last().map_or(0, |(number, ..)| *number);
        let mut parts: Vec<(String, String)> = Vec::new();
        for (number, signed, job, dataset) in rows {
            batch.numbers.push(number);
            batch.receipts.push(signed);
            if !parts.contains(&(job.clone(), dataset.clone())) {
                parts.push((job, dataset));
            }
        }
        for (job, dataset) in parts {
            batch.parts.extend(returned_part(db, &job, &dataset, last)?);
        }
        Ok(batch)
    })
}

/// Returns a job's part in the batch up to receipt `last`; `None` when this site has no manifest of it.
fn returned_part(db: &Connection, job: &str, dataset: &str, last: u64) -> Result<Option<ReturnedPart>, StoreError> {
    let row = db
        .query_row(
            "SELECT COALESCE(settled.payload, manifest.payload), COALESCE(settled.signature, manifest.signature),
                EXISTS (SELECT 1 FROM run WHERE run.job = ?1 AND run.dataset = ?2 AND run.ended IS NOT NULL)
                    AND NOT EXISTS (SELECT 1 FROM receipt WHERE receipt.job = ?1 AND receipt.dataset = ?2
                        AND receipt.sequence > ?3)
             FROM manifest LEFT JOIN settled_manifest AS settled ON settled.job = manifest.job
             WHERE manifest.job = ?1 AND manifest.dataset = ?2",
            params![job, dataset, sql(last)],
            |row| {
                let manifest = Signed { payload: row.get(0)?, signature: row.get(1)? };
                Ok((manifest, row.get::<_, bool>(2)?))
            },
        )
        .optional()
        .map_err(StoreError::sqlite("read a manifest"))?;
    let Some((manifest, has_ended)) = row else { return Ok(None) };
    Ok(Some(ReturnedPart { manifest, dataset: dataset.parse().map_err(StoreError::row)?, has_ended }))
}

/// Returns the largest head of the epoch before this one, if a restoration began this one.
fn head_before(db: &Connection, epoch: i64) -> Result<Option<Signed>, StoreError> {
    let sql = "SELECT payload, signature FROM head WHERE epoch < ?1
        AND EXISTS (SELECT 1 FROM server_restoration WHERE server_restoration.epoch = ?1)
        ORDER BY epoch DESC, size DESC LIMIT 1";
    db.query_row(sql, [epoch], |row| Ok(Signed { payload: row.get(0)?, signature: row.get(1)? }))
        .optional()
        .map_err(StoreError::sqlite("read the last head before a restoration"))
}

/// Records that the server has every receipt of this site again.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn note_complete(store: &Store, at: OffsetDateTime) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO server_reconciled (restoration, at) SELECT id, ?1 FROM server_restoration
             WHERE id NOT IN (SELECT restoration FROM server_reconciled)",
            [format_time(at)],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note that the server has every receipt"))
    })
}
