//! The server's commitments for independent verification: verified again from the stored documents alone, and exported
//! with the site's own receipts and its chain of keys. [`file`](mod@file) verifies the export on any machine.

pub mod file;

use ed25519_dalek::VerifyingKey;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use undertone_api::log::proof::{verify_consistency, verify_inclusion};
use undertone_api::log::witness::{WitnessAnswer, charges, countersigned};
use undertone_api::log::{LogLeaf, TreeHash, from_hex};
use undertone_api::signed::{KeyRotation, LogHead, Receipt, Signed, key_id};

use super::{WitnessQuestion, alarm};
use crate::books::receipts;
use crate::rotation::rotations;
use crate::store::{Store, StoreError, sql};

/// Defects of the stored documents.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A head is invalid.
    #[error(
        "the stored head of {size} entries of the server's log {problem}: restore the database from a backup, and find out who was here"
    )]
    Head {
        /// Its size.
        size: u64,
        /// The problem.
        problem: String,
    },
    /// A countersignature or a proof is invalid.
    #[error(
        "the server's {what} of receipt {receipt} {problem}: restore the database from a backup, and find out who was here"
    )]
    Receipt {
        /// The kind of document.
        what: &'static str,
        /// The receipt's number.
        receipt: u64,
        /// The problem.
        problem: String,
    },
}

/// The result of verifying the stored documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvidenceSummary {
    /// The number of heads of the server's log.
    pub heads: u64,
    /// The newest head in force.
    pub head: Option<LogHead>,
    /// The number of receipts that the server has countersigned, in the epoch in force.
    pub countersigned: u64,
    /// The number of receipts proved to be in the server's log, in the epoch in force.
    pub proved: u64,
    /// Receipts without a proof: in transit, or not sent yet.
    pub open: Vec<u64>,
}

/// A stored head.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredHead {
    epoch: i64,
    #[serde(flatten)]
    signed: Signed,
    /// The proof that it continues the head before it.
    consistency: Vec<String>,
}

/// A stored countersignature.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredCountersignature {
    epoch: i64,
    receipt: u64,
    #[serde(flatten)]
    signed: Signed,
}

/// A stored proof.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredProof {
    epoch: i64,
    receipt: u64,
    /// Size of the head whose tree contains the leaf.
    head: u64,
    position: u64,
    leaf: String,
    inclusion: Vec<String>,
}

/// Verifies every stored head, countersignature and proof again, offline: signatures, each head against the one before
/// it, each leaf against its head and its receipt.
///
/// # Errors
/// [`EvidenceError`] with the first invalid document.
pub fn verify(db: &Connection, key: &VerifyingKey) -> Result<EvidenceSummary, EvidenceError> {
    let (epoch, _) = alarm::epoch(db)?;
    examine(epoch, &receipts(db)?, &heads(db)?, &countersignatures(db)?, &proofs(db)?, key)
}

fn examine(
    epoch: i64,
    receipts: &[Signed],
    heads: &[StoredHead],
    countersignatures: &[StoredCountersignature],
    proofs: &[StoredProof],
    key: &VerifyingKey,
) -> Result<EvidenceSummary, EvidenceError> {
    let all: Vec<(String, Receipt)> = receipts
        .iter()
        .map(|signed| Ok((signed.digest(), serde_json::from_str(&signed.payload).map_err(StoreError::row)?)))
        .collect::<Result<_, StoreError>>()?;
    let receipt = |number: u64| usize::try_from(number).ok().and_then(|number| all.get(number.checked_sub(1)?));
    let heads = check_heads(heads, key)?;
    let mut attested = EvidenceSummary {
        heads: heads.len() as u64,
        head: heads.iter().rev().find(|(of, _)| *of == epoch).map(|(_, head)| head.clone()),
        ..EvidenceSummary::default()
    };
    for row in countersignatures {
        let wrong =
            |problem: String| EvidenceError::Receipt { what: "countersignature", receipt: row.receipt, problem };
        let (digest, document) =
            receipt(row.receipt).ok_or_else(|| wrong("is for a receipt that is not here".to_owned()))?;
        countersigned(&row.signed, key, digest, document).map_err(|error| wrong(format!("does not hold: {error}")))?;
        attested.countersigned += u64::from(row.epoch == epoch);
    }
    let mut proved = std::collections::BTreeSet::new();
    for row in proofs {
        let wrong =
            |problem: &str| EvidenceError::Receipt { what: "proof", receipt: row.receipt, problem: problem.to_owned() };
        let (digest, document) = receipt(row.receipt).ok_or_else(|| wrong("is for a receipt that is not here"))?;
        let head = heads.iter().find(|(of, head)| (*of, head.size) == (row.epoch, row.head));
        let root = head.and_then(|(_, head)| from_hex(&head.root)).ok_or_else(|| wrong("leads to no stored head"))?;
        let path = hashes(&row.inclusion).ok_or_else(|| wrong("cannot be read"))?;
        verify_inclusion(row.leaf.as_bytes(), row.position, row.head, &root, &path)
            .map_err(|_| wrong("does not lead to the root of its head"))?;
        let is_charged = LogLeaf::parse(&row.leaf).is_ok_and(|leaf| charges(&leaf, digest, document));
        if !is_charged {
            return Err(wrong("charges something else than the receipt says"));
        }
        if row.epoch == epoch {
            attested.proved += 1;
            proved.insert(row.receipt);
        }
    }
    attested.open = (1..=all.len() as u64).filter(|number| !proved.contains(number)).collect();
    Ok(attested)
}

/// Checks heads in their order: signature, log, and that each continues the one before it in its epoch.
fn check_heads(heads: &[StoredHead], key: &VerifyingKey) -> Result<Vec<(i64, LogHead)>, EvidenceError> {
    let mut checked: Vec<(i64, LogHead)> = Vec::new();
    for head in heads {
        let document: LogHead = serde_json::from_str(&head.signed.payload).map_err(StoreError::row)?;
        let wrong = |problem: &str| EvidenceError::Head { size: document.size, problem: problem.to_owned() };
        head.signed.open::<LogHead>(key).map_err(|_| wrong("is not signed by the server"))?;
        let root = from_hex(&document.root).ok_or_else(|| wrong("has no root"))?;
        if document.server != key_id(key) {
            return Err(wrong("is of another server's log"));
        }
        if let Some((_, before)) = checked.last().filter(|(epoch, _)| *epoch == head.epoch) {
            let path = hashes(&head.consistency).ok_or_else(|| wrong("has a proof that cannot be read"))?;
            let old = from_hex(&before.root).ok_or_else(|| wrong("follows one without a root"))?;
            verify_consistency(before.size, &old, document.size, &root, &path)
                .map_err(|_| wrong("does not continue the one before it"))?;
        }
        checked.push((head.epoch, document));
    }
    Ok(checked)
}

/// The name of the format.
const FORMAT: &str = "undertone/site-evidence/1";

/// The exported evidence for an auditor or a court.
#[derive(Serialize, Deserialize)]
struct EvidenceExport {
    /// [`FORMAT`].
    format: String,
    /// The site's public key, hex.
    site_key: String,
    /// The history of the site's key: its changes, oldest first, each signed by the old key and the new.
    #[serde(default)]
    rotations: Vec<KeyRotation>,
    /// The server's public key at the time of the enrolment, hex.
    server_key: String,
    /// The epoch in force, which increases when alarms are cleared.
    #[serde(default)]
    epoch: i64,
    /// Signed receipts, oldest first.
    receipts: Vec<Signed>,
    heads: Vec<StoredHead>,
    countersignatures: Vec<StoredCountersignature>,
    proofs: Vec<StoredProof>,
    alarms: Vec<ExportedAlarm>,
}

#[derive(Serialize, Deserialize)]
struct ExportedAlarm {
    problem: String,
    at: String,
    evidence: serde_json::Value,
    cleared: Option<String>,
}

/// Returns the site's receipts, its chain of keys, and all of the server's commitments, as one JSON document. It
/// contains no secret that the server does not already know.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn export(db: &Connection, site_key: &str, server_key: &VerifyingKey) -> Result<String, StoreError> {
    let alarms = alarm::all(db)?.into_iter().map(|alarm| {
        let evidence = serde_json::from_str(&alarm.evidence).map_err(StoreError::row)?;
        let reason = alarm.cleared.map(|cleared| cleared.reason);
        Ok(ExportedAlarm { problem: alarm.problem, at: alarm.at, evidence, cleared: reason })
    });
    let export = EvidenceExport {
        format: FORMAT.to_owned(),
        site_key: site_key.to_owned(),
        rotations: rotations(db)?,
        epoch: alarm::epoch(db)?.0,
        server_key: hex::encode(server_key.as_bytes()),
        receipts: receipts(db)?,
        heads: heads(db)?,
        countersignatures: countersignatures(db)?,
        proofs: proofs(db)?,
        alarms: alarms.collect::<Result<_, StoreError>>()?,
    };
    serde_json::to_string_pretty(&export).map_err(StoreError::row)
}

fn heads(db: &Connection) -> Result<Vec<StoredHead>, StoreError> {
    rows(db, "SELECT epoch, payload, signature, consistency FROM head ORDER BY epoch, size", |row| {
        let signed = Signed { payload: row.get(1)?, signature: row.get(2)? };
        Ok(StoredHead { epoch: row.get(0)?, signed, consistency: split(&row.get::<_, String>(3)?) })
    })
}

fn countersignatures(db: &Connection) -> Result<Vec<StoredCountersignature>, StoreError> {
    let sql = "SELECT epoch, receipt, payload, signature FROM countersignature ORDER BY epoch, receipt";
    rows(db, sql, |row| {
        let signed = Signed { payload: row.get(2)?, signature: row.get(3)? };
        Ok(StoredCountersignature { epoch: row.get(0)?, receipt: row.get::<_, i64>(1)? as u64, signed })
    })
}

fn proofs(db: &Connection) -> Result<Vec<StoredProof>, StoreError> {
    let sql = "SELECT epoch, receipt, head, position, leaf, inclusion FROM proof ORDER BY epoch, receipt";
    rows(db, sql, |row| {
        Ok(StoredProof {
            epoch: row.get(0)?,
            receipt: row.get::<_, i64>(1)? as u64,
            head: row.get::<_, i64>(2)? as u64,
            position: row.get::<_, i64>(3)? as u64,
            leaf: row.get(4)?,
            inclusion: split(&row.get::<_, String>(5)?),
        })
    })
}

fn rows<T>(
    db: &Connection,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    db.prepare(sql)
        .and_then(|mut statement| statement.query_map([], read)?.collect())
        .map_err(StoreError::sqlite("read what the server answered for"))
}

/// Splits concatenated hashes in hex.
fn split(text: &str) -> Vec<String> {
    text.as_bytes().chunks(64).map(|hash| String::from_utf8_lossy(hash).into_owned()).collect()
}

fn hashes(text: &[String]) -> Option<Vec<TreeHash>> {
    text.iter().map(|hash| from_hex(hash)).collect()
}

#[derive(Serialize)]
struct AnswerEvidence<'a> {
    known: Option<&'a Signed>,
    asked: Vec<u64>,
    head: Option<&'a Signed>,
    consistency: Vec<String>,
    receipts: Vec<ProofEvidence<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restorations: Vec<&'a Signed>,
}

#[derive(Serialize)]
struct ProofEvidence<'a> {
    sequence: u64,
    countersignature: &'a Signed,
    position: u64,
    leaf: &'a str,
    inclusion: Vec<String>,
}

/// Returns a question and its answer, as evidence.
pub(super) fn answer_evidence(question: &WitnessQuestion, answer: &WitnessAnswer) -> String {
    let text = |hashes: &[TreeHash]| hashes.iter().map(hex::encode).collect();
    let proofs = answer.receipts.iter().map(|proof| ProofEvidence {
        sequence: proof.sequence,
        countersignature: &proof.countersignature,
        position: proof.position,
        leaf: &proof.leaf,
        inclusion: text(&proof.inclusion),
    });
    let document = AnswerEvidence {
        known: question.known.as_ref(),
        asked: question.numbers(),
        head: answer.head.as_ref(),
        consistency: text(&answer.consistency),
        receipts: proofs.collect(),
        restorations: answer.restorations.iter().map(|restoration| &restoration.statement).collect(),
    };
    // Strings and numbers always have a JSON form.
    serde_json::to_string(&document).unwrap_or_default()
}

/// Returns a receipt, the server's countersignature of it, and the previous one, as evidence.
pub(super) fn submission_evidence(
    store: &Store,
    receipt: &Signed,
    said: &Signed,
    number: u64,
) -> Result<String, StoreError> {
    let before: Vec<Signed> = store.read(|db| {
        db.prepare("SELECT payload, signature FROM countersignature WHERE receipt = ?1 ORDER BY epoch DESC LIMIT 1")
            .and_then(|mut statement| {
                let row = |row: &rusqlite::Row<'_>| Ok(Signed { payload: row.get(0)?, signature: row.get(1)? });
                statement.query_map(params![sql(number)], row)?.collect()
            })
            .map_err(StoreError::sqlite("look for a countersignature"))
    })?;
    let document = serde_json::json!({ "receipt": receipt, "countersignature": said, "before": before });
    Ok(document.to_string())
}

/// Returns the positions that the server has countersigned, for tests of the stored rows.
#[cfg(test)]
pub(super) fn positions(db: &Connection) -> Result<Vec<(u64, u64)>, StoreError> {
    let all = countersignatures(db)?.into_iter().map(|row| {
        let read: undertone_api::signed::Countersignature =
            serde_json::from_str(&row.signed.payload).map_err(StoreError::row)?;
        Ok((row.receipt, read.position))
    });
    all.collect()
}
