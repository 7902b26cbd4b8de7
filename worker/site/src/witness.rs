//! The server's commitments: the signed heads of its log, its countersignatures, and the proofs that every receipt of
//! this site is charged there. They prove that an entry was changed, removed, truncated, or presented in two versions.
//!
//! [`question`] says what to ask, [`judge`] stores what was proved or raises an [`alarm`], [`peers`] compares the heads of
//! other sites with this site's, [`positions`] what they have seen of this site's ledger, [`evidence`] reads it all back for an auditor. Nothing here speaks to the server, and nothing here lets anything leave.

pub mod alarm;
pub mod evidence;
pub mod own_key;
pub mod peers;
pub mod positions;
pub mod restoration;

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use time::OffsetDateTime;
use undertone_api::log::TreeHash;
use undertone_api::log::witness::{MOST_RECEIPTS, VerifiedAnswer, WitnessAnswer, WitnessError, countersigned};
use undertone_api::signed::{Countersignature, LogHead, Receipt, Signed, SigningAuthority};

use super::clock::format_time;
use super::store::{Store, StoreError, sql};

/// A contradiction of the server with itself, or with this site's payments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerContradiction {
    /// The answer is evidence by itself.
    #[error(transparent)]
    Answer(#[from] WitnessError),
    /// The server no longer has a receipt that it had accepted.
    #[error("the server had taken receipt {0} of this site, and has it no more")]
    Lost(u64),
    /// The server countersigned one receipt twice.
    #[error("the server has countersigned receipt {0} for two places in its log")]
    Twice(u64),
    /// A statement of a restoration is not newer than the one before it.
    #[error("the server states a restoration that is older than the one before it")]
    Restoration,
}

/// A request to the server.
#[derive(Debug, Clone)]
pub struct WitnessQuestion {
    epoch: i64,
    /// The last proved head; `None` before the first.
    pub known: Option<Signed>,
    /// Receipts without a proof, by number: digest and document.
    receipts: BTreeMap<u64, (String, Receipt)>,
    /// The receipts among them that the server must have.
    expected: Vec<u64>,
    /// The last receipt that the server may have lost, by a steward's decision or by a restoration.
    lost: u64,
    /// The last receipt that the restored log has.
    last_restored: u64,
    /// Digest of the last accepted restoration.
    pub restored: Option<String>,
}

impl WitnessQuestion {
    /// Returns the numbers of the requested receipts.
    pub fn numbers(&self) -> Vec<u64> {
        self.receipts.keys().copied().collect()
    }
}

/// The result of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WitnessVerdict {
    /// The answer holds; this many receipts were proved to be charged, and that is stored.
    Holds(usize),
    /// The answer contradicts earlier documents; an alarm was raised.
    Contradicts(ServerContradiction),
}

/// Builds the request to the server: a proof that its log continues the one that this site saw, and proofs of the
/// receipts that have none. Receipts that the server must have come first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn question(store: &Store) -> Result<WitnessQuestion, StoreError> {
    store.read(|db| {
        let (epoch, lost) = alarm::epoch(db)?;
        let last = last_head(db, epoch)?;
        let last_restored = restoration::last_restored_receipt(db, epoch)?;
        let restored = restoration::last_accepted(db)?;
        let mut statement = db
            .prepare(
                "SELECT sequence, digest, payload,
                        (sequence > ?2 AND sequence IN (SELECT receipt FROM acknowledged))
                            OR sequence <= ?4
                            OR sequence IN (SELECT receipt FROM countersignature WHERE epoch = ?1) AS expected
                 FROM receipt WHERE sequence NOT IN (SELECT receipt FROM proof WHERE epoch = ?1)
                 ORDER BY expected DESC, sequence IN (SELECT receipt FROM lacking WHERE epoch = ?1), sequence LIMIT ?3",
            )
            .map_err(StoreError::sqlite("look for receipts without a proof"))?;
        let rows = statement
            .query_map(params![epoch, sql(lost), sql(MOST_RECEIPTS as u64), sql(last_restored)], |row| {
                Ok((row.get::<_, i64>(0)? as u64, row.get(1)?, row.get::<_, String>(2)?, row.get(3)?))
            })
            .map_err(StoreError::sqlite("look for receipts without a proof"))?;
        let (mut receipts, mut expected) = (BTreeMap::new(), Vec::new());
        for row in rows {
            let (number, digest, payload, must) =
                row.map_err(StoreError::sqlite("look for receipts without a proof"))?;
            let receipt: Receipt = serde_json::from_str(&payload).map_err(StoreError::row)?;
            receipts.insert(number, (digest, receipt));
            if must {
                expected.push(number);
            }
        }
        Ok(WitnessQuestion { epoch, known: last, receipts, expected, lost, last_restored, restored })
    })
}

fn last_head(db: &Connection, epoch: i64) -> Result<Option<Signed>, StoreError> {
    db.query_row("SELECT payload, signature FROM head WHERE epoch = ?1 ORDER BY size DESC LIMIT 1", [epoch], |row| {
        Ok(Signed { payload: row.get(0)?, signature: row.get(1)? })
    })
    .optional()
    .map_err(StoreError::sqlite("read the last head"))
}

/// Returns the last proved head of the server's log, with its signature; `None` before the first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn head(store: &Store) -> Result<Option<(LogHead, Signed)>, StoreError> {
    let signed = store.read(|db| last_head(db, alarm::epoch(db)?.0))?;
    signed.map(|signed| Ok((serde_json::from_str(&signed.payload).map_err(StoreError::row)?, signed))).transpose()
}

/// Returns the number of receipts that the server has countersigned, and the number proved to be in its log, in the
/// epoch in force.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn counts(db: &Connection) -> Result<(u64, u64), StoreError> {
    let (epoch, _) = alarm::epoch(db)?;
    db.query_row(
        "SELECT (SELECT COUNT(*) FROM countersignature WHERE epoch = ?1), (SELECT COUNT(*) FROM proof WHERE epoch = ?1)",
        [epoch],
        |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)),
    )
    .map_err(StoreError::sqlite("count what the server answers for"))
}

/// Returns whether the server's countersignature of a receipt is stored, in the epoch in force.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn is_countersigned(store: &Store, receipt: u64) -> Result<bool, StoreError> {
    store.read(|db| {
        let (epoch, _) = alarm::epoch(db)?;
        db.query_row(
            "SELECT EXISTS (SELECT 1 FROM countersignature WHERE epoch = ?1 AND receipt = ?2)",
            params![epoch, sql(receipt)],
            |row| row.get(0),
        )
        .map_err(StoreError::sqlite("look for a countersignature"))
    })
}

/// Verifies the answer to a question with the server's `key`: stores the proofs, or raises an alarm with the documents.
///
/// # Errors
/// [`StoreError`] when the database fails. In that case nothing is stored, and the question must be asked again.
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
    let witnessed = match answer.check(key, last.as_ref(), &question.receipts) {
        Ok(witnessed) => witnessed,
        Err(error) => return contradicts(store, error.into(), &evidence::answer_evidence(question, answer), at),
    };
    if let Some(lost) = question.expected.iter().find(|number| !witnessed.receipts.contains_key(number)) {
        return contradicts(store, ServerContradiction::Lost(*lost), &evidence::answer_evidence(question, answer), at);
    }
    let twice = store.write(|tx| keep(tx, question, answer, &witnessed, at))?;
    match twice {
        None => Ok(WitnessVerdict::Holds(witnessed.receipts.len())),
        Some(number) => {
            contradicts(store, ServerContradiction::Twice(number), &evidence::answer_evidence(question, answer), at)
        }
    }
}

fn contradicts(
    store: &Store,
    contradiction: ServerContradiction,
    evidence: &str,
    at: OffsetDateTime,
) -> Result<WitnessVerdict, StoreError> {
    alarm::raise(store, &contradiction.to_string(), evidence, at)?;
    Ok(WitnessVerdict::Contradicts(contradiction))
}

/// Stores the proofs. Returns the number of a receipt for which another countersignature is stored; such a proof is not
/// stored.
fn keep(
    tx: &Transaction<'_>,
    question: &WitnessQuestion,
    answer: &WitnessAnswer,
    witnessed: &VerifiedAnswer,
    at: OffsetDateTime,
) -> Result<Option<u64>, StoreError> {
    let (Some(head), Some(signed)) = (&witnessed.head, &answer.head) else { return Ok(None) };
    let epoch = question.epoch;
    tx.execute(
        "INSERT INTO head (epoch, size, payload, signature, consistency, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO NOTHING",
        params![
            epoch,
            sql(head.size),
            signed.payload,
            signed.signature,
            join_hashes(&answer.consistency),
            format_time(at)
        ],
    )
    .map_err(StoreError::sqlite("keep a head"))?;
    for proof in &answer.receipts {
        if proof.sequence <= question.last_restored && has_moved(tx, epoch, proof.sequence, proof.position)? {
            return Ok(Some(proof.sequence));
        }
        if let Some(twice) = keep_countersignature(tx, epoch, proof.sequence, &proof.countersignature, at)? {
            return Ok(Some(twice));
        }
        tx.execute(
            "INSERT INTO proof (epoch, receipt, head, position, leaf, inclusion) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO NOTHING",
            params![
                epoch,
                sql(proof.sequence),
                sql(head.size),
                sql(proof.position),
                proof.leaf,
                join_hashes(&proof.inclusion)
            ],
        )
        .map_err(StoreError::sqlite("keep a proof"))?;
        // A receipt that is charged at the server need not be sent.
        tx.execute("INSERT INTO acknowledged (receipt) VALUES (?1) ON CONFLICT DO NOTHING", [sql(proof.sequence)])
            .map_err(StoreError::sqlite("note a receipt"))?;
    }
    let lost = question.receipts.range(..=question.lost).map(|(number, _)| number);
    for number in lost.filter(|number| !witnessed.receipts.contains_key(number)) {
        // A receipt without acknowledgement is sent anyway.
        tx.execute(
            "INSERT INTO lacking (epoch, receipt) SELECT ?1, receipt FROM acknowledged WHERE receipt = ?2
             ON CONFLICT DO NOTHING",
            params![epoch, sql(*number)],
        )
        .map_err(StoreError::sqlite("note a receipt that the server lacks"))?;
    }
    Ok(None)
}

/// Returns whether a receipt in the restored log was countersigned for another position before the restoration.
fn has_moved(tx: &Transaction<'_>, epoch: i64, number: u64, position: u64) -> Result<bool, StoreError> {
    let before: Option<String> = tx
        .query_row(
            "SELECT payload FROM countersignature WHERE epoch < ?1 AND receipt = ?2 ORDER BY epoch DESC LIMIT 1",
            params![epoch, sql(number)],
            |row| row.get(0),
        )
        .optional()
        .map_err(StoreError::sqlite("look for a countersignature"))?;
    let Some(before) = before else { return Ok(false) };
    let before: Countersignature = serde_json::from_str(&before).map_err(StoreError::row)?;
    Ok(before.position != position)
}

fn keep_countersignature(
    tx: &Transaction<'_>,
    epoch: i64,
    number: u64,
    signed: &Signed,
    at: OffsetDateTime,
) -> Result<Option<u64>, StoreError> {
    let before: Option<String> = tx
        .query_row(
            "SELECT payload FROM countersignature WHERE epoch = ?1 AND receipt = ?2",
            params![epoch, sql(number)],
            |row| row.get(0),
        )
        .optional()
        .map_err(StoreError::sqlite("look for a countersignature"))?;
    if let Some(before) = before {
        let position = |payload: &str| -> Result<u64, StoreError> {
            let read: Countersignature = serde_json::from_str(payload).map_err(StoreError::row)?;
            Ok(read.position)
        };
        return Ok((position(&before)? != position(&signed.payload)?).then_some(number));
    }
    tx.execute(
        "INSERT INTO countersignature (epoch, receipt, payload, signature, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![epoch, sql(number), signed.payload, signed.signature, format_time(at)],
    )
    .map_err(StoreError::sqlite("keep a countersignature"))?;
    Ok(None)
}

/// Stores the countersignatures in the answer to a submission of `receipts`, in their order. Fewer of them than
/// receipts are no contradiction: the missing ones are requested later.
///
/// # Errors
/// [`StoreError`] when the database fails; the countersignatures are then requested later.
pub fn record_countersignatures(
    store: &Store,
    key: &dyn SigningAuthority,
    receipts: &[Signed],
    said: &[Signed],
    at: OffsetDateTime,
) -> Result<Option<ServerContradiction>, StoreError> {
    for (receipt, said) in receipts.iter().zip(said) {
        let document: Receipt = serde_json::from_str(&receipt.payload).map_err(StoreError::row)?;
        let contradiction = match countersigned(said, key, &receipt.digest(), &document) {
            Err(error) => Some(error.into()),
            Ok(_) => store
                .write(|tx| keep_countersignature(tx, alarm::epoch(tx)?.0, document.sequence, said, at))?
                .map(ServerContradiction::Twice),
        };
        if let Some(contradiction) = contradiction {
            let evidence = evidence::submission_evidence(store, receipt, said, document.sequence)?;
            alarm::raise(store, &contradiction.to_string(), &evidence, at)?;
            return Ok(Some(contradiction));
        }
    }
    Ok(None)
}

/// Encodes hashes as hex, one after another.
fn join_hashes(hashes: &[TreeHash]) -> String {
    hex::encode(hashes.concat())
}

#[cfg(test)]
mod tests;
