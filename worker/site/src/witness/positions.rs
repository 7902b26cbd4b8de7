//! Positions of ledgers that peers keep for each other, so that a site's folder that was put back to an older copy is detected
//! although the server hides the receipts that it has.
//!
//! The site signs the number and digest of its newest receipt ([`own_position`]) and, for each peer, the newest position of that
//! peer that it has seen ([`sightings`]). [`compare`] judges the answer. A sighting counts if it holds a position that this site's
//! own key has signed: nothing else can hold a site back. If the ledger does not have that receipt, nothing leaves
//! ([`contradiction`]) until the missing receipts are taken in, or the operator overrules the position ([`overrule`]).

use ed25519_dalek::VerifyingKey;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use undertone_api::id::WorkerId;
use undertone_api::log::peers::{MOST_PEERS, PeerHead};
use undertone_api::signed::{LedgerPosition, LedgerSighting, MOST_SIGHTING_BYTES, Signed, SiteKeys};

use super::peers::{OLD_AFTER, find_peer_key};
use crate::clock::format_time;
use crate::keys::SiteKey;
use crate::ledger::rows::length;
use crate::ledger::rows::receipt_digest;
use crate::rotation;
use crate::store::{Store, StoreError, sql};

/// A position of this site's ledger that the ledger does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// The ledger lacks receipts.
    #[error(
        "worker {peer} has seen {seen} receipts of this site, signed by its key, and the ledger has {found}: it is an older copy. Put the newest copy back, or let the server show the missing receipts; nothing leaves until they are there. If they are lost for good: `undertone-worker ledger peers overrule --reason ...`"
    )]
    Older {
        /// The peer that has seen them.
        peer: String,
        /// Receipts by the position.
        seen: u64,
        /// Receipts in the ledger.
        found: u64,
    },
    /// Another receipt stands under the number.
    #[error(
        "receipt {number} of the ledger is another than the one that worker {peer} has seen, signed by this site's key: the ledger has forked, two copies of it were in use. Put the right copy back, or `undertone-worker ledger peers overrule --reason ...`"
    )]
    Forked {
        /// The peer that has seen it.
        peer: String,
        /// The receipt.
        number: u64,
    },
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PositionComparison {
    /// Sightings of this site that hold.
    pub sightings: usize,
    /// Positions and sightings that do not hold, with the reason; they are passed over.
    pub rejected: Vec<String>,
    /// The reason why nothing leaves from now on.
    pub contradiction: Option<PositionError>,
}

/// Signs the number and digest of the ledger's newest receipt.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn own_position(store: &Store, worker: WorkerId, key: &SiteKey, now: OffsetDateTime) -> Result<Signed, StoreError> {
    let receipts = length(store)?;
    let digest = store.read(|db| receipt_digest(db, receipts))?.unwrap_or_default();
    key.sign(&LedgerPosition { worker, receipts, digest, at: now }).map_err(StoreError::row)
}

/// Signs the newest position of each peer that this site has seen.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn sightings(
    store: &Store,
    worker: WorkerId,
    key: &SiteKey,
    now: OffsetDateTime,
) -> Result<Vec<Signed>, StoreError> {
    let rows: Vec<(String, String, String)> = store.read(|db| {
        db.prepare("SELECT worker, payload, signature FROM peer_position ORDER BY rowid DESC LIMIT ?1")
            .and_then(|mut statement| {
                let rows =
                    statement.query_map([sql(MOST_PEERS as u64)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                rows.collect()
            })
            .map_err(StoreError::sqlite("read the positions of peers"))
    })?;
    let signed = rows.into_iter().map(|(subject, payload, signature)| {
        let subject = subject.parse().map_err(StoreError::row)?;
        let position = Signed { payload, signature };
        let sighting = LedgerSighting { observer: worker, subject, position, observed_at: now };
        key.sign(&sighting).map_err(StoreError::row)
    });
    signed.collect()
}

/// Keeps the newest positions of the peers, and compares their sightings of this site with its ledger. Call it after
/// [`super::peers::compare`], which knows the peers' keys.
///
/// # Errors
/// [`StoreError`] when the database fails; the peers have to be asked again.
pub fn compare(
    store: &Store,
    worker: WorkerId,
    key: &SiteKey,
    peers: &[PeerHead],
    now: OffsetDateTime,
) -> Result<PositionComparison, StoreError> {
    let keys = store.read(|db| rotation::keys(db, &key.public())).map_err(StoreError::row)?;
    let mut comparison = PositionComparison::default();
    for peer in peers {
        let Some(peer_key) = store.read(|db| find_peer_key(db, peer.worker))? else { continue };
        let name = format!("{} of {}", peer.worker_name, peer.organization_name);
        if let Some(signed) = &peer.position {
            match open_position(signed, &peer_key, peer.worker) {
                Ok(position) => store.write(|tx| keep_position(tx, &position, signed))?,
                Err(problem) => comparison.rejected.push(format!("{name}: {problem}")),
            }
        }
        if let Some(signed) = &peer.sighting {
            match open_sighting(signed, &peer_key, peer.worker, worker, &keys) {
                Ok((sighting, position)) => {
                    store.write(|tx| keep_sighting(tx, &sighting, &position, signed, now))?;
                    comparison.sightings += 1;
                }
                Err(problem) => comparison.rejected.push(format!("{name}: {problem}")),
            }
        }
    }
    comparison.contradiction = store.read(contradiction)?;
    Ok(comparison)
}

fn open_position(signed: &Signed, key: &VerifyingKey, worker: WorkerId) -> Result<LedgerPosition, String> {
    if signed.payload.len() > MOST_SIGHTING_BYTES {
        return Err("the position is too large".to_owned());
    }
    let position: LedgerPosition = signed.open(key).map_err(|error| format!("the position does not hold: {error}"))?;
    if position.worker == worker { Ok(position) } else { Err("the position is of another worker".to_owned()) }
}

/// Opens a sighting of this site: the peer has signed it, and one of the site's keys the position in it.
fn open_sighting(
    signed: &Signed,
    key: &VerifyingKey,
    observer: WorkerId,
    own: WorkerId,
    keys: &SiteKeys,
) -> Result<(LedgerSighting, LedgerPosition), String> {
    if signed.payload.len() > MOST_SIGHTING_BYTES {
        return Err("the sighting is too large".to_owned());
    }
    let sighting: LedgerSighting = signed.open(key).map_err(|error| format!("the sighting does not hold: {error}"))?;
    if sighting.observer != observer || sighting.subject != own {
        return Err("the sighting is of other workers".to_owned());
    }
    let position = keys.iter().find_map(|key| open_position(&sighting.position, key, own).ok());
    let position = position.ok_or("the sighting holds a position that this site has not signed")?;
    Ok((sighting, position))
}

/// Keeps the position of a peer, unless a newer one is kept.
fn keep_position(tx: &Transaction<'_>, position: &LedgerPosition, signed: &Signed) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO peer_position (worker, receipts, payload, signature) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (worker) DO UPDATE SET receipts = ?2, payload = ?3, signature = ?4 WHERE ?2 > receipts",
        params![position.worker.to_string(), sql(position.receipts), signed.payload, signed.signature],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("keep the position of a peer"))
}

/// Keeps when a peer has signed a sighting, and the sighting itself where the ledger does not have its receipt.
fn keep_sighting(
    tx: &Transaction<'_>,
    sighting: &LedgerSighting,
    position: &LedgerPosition,
    signed: &Signed,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    // A clock that runs ahead must not hide later silence.
    let observed_at = sighting.observed_at.min(now).to_offset(UtcOffset::UTC);
    let peer = sighting.observer.to_string();
    tx.execute(
        "INSERT INTO peer_sighting (worker, receipts, observed_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (worker) DO UPDATE SET receipts = max(receipts, ?2), observed_at = max(observed_at, ?3)",
        params![peer, sql(position.receipts), format_time(observed_at)],
    )
    .map_err(StoreError::sqlite("keep a sighting"))?;
    if position.receipts == 0 || receipt_digest(tx, position.receipts)?.as_deref() == Some(&position.digest) {
        return Ok(());
    }
    tx.execute(
        "INSERT INTO own_position (receipts, digest, peer, payload, signature, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO NOTHING",
        params![sql(position.receipts), position.digest, peer, signed.payload, signed.signature, format_time(now)],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("keep a position of this site"))
}

/// Returns the position of this site that the ledger lacks most receipts of; `None` when it has all of them, or they were
/// overruled.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn contradiction(db: &Connection) -> Result<Option<PositionError>, StoreError> {
    let row = db
        .query_row(
            "SELECT own.peer, own.receipts, (SELECT COALESCE(MAX(sequence), 0) FROM receipt)
             FROM own_position own LEFT JOIN receipt ON receipt.sequence = own.receipts
             WHERE own.id > (SELECT COALESCE(MAX(position), 0) FROM position_overruled)
                AND receipt.digest IS NOT own.digest
             ORDER BY own.receipts DESC LIMIT 1",
            [],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64)),
        )
        .optional()
        .map_err(StoreError::sqlite("look for positions of this site"))?;
    Ok(row.map(|(peer, seen, found)| {
        if seen > found {
            PositionError::Older { peer, seen, found }
        } else {
            PositionError::Forked { peer, number: seen }
        }
    }))
}

/// Lets the ledger go on although it lacks receipts that peers have seen; the reason is kept. Returns false when nothing holds
/// it back.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn overrule(store: &Store, reason: &str, now: OffsetDateTime) -> Result<bool, StoreError> {
    store.write(|tx| {
        if contradiction(tx)?.is_none() {
            return Ok(false);
        }
        tx.execute(
            "INSERT INTO position_overruled (position, reason, at) SELECT MAX(id), ?1, ?2 FROM own_position",
            params![reason, format_time(now)],
        )
        .map(|_| true)
        .map_err(StoreError::sqlite("overrule positions"))
    })
}

/// Returns the number of peers that have signed sightings of this site, and how many of these are older than [`OLD_AFTER`].
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn sighting_ages(db: &Connection, now: OffsetDateTime) -> Result<(usize, usize), StoreError> {
    let dates: Vec<String> = db
        .prepare("SELECT observed_at FROM peer_sighting")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(StoreError::sqlite("read sightings"))?;
    let mut old = 0;
    for date in &dates {
        let observed_at = OffsetDateTime::parse(date, &Rfc3339).map_err(StoreError::row)?;
        old += usize::from(now - observed_at > OLD_AFTER);
    }
    Ok((dates.len(), old))
}

#[cfg(test)]
mod tests;
