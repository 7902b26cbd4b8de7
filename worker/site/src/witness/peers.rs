//! Heads of the server's log that peers have verified, compared with this site's own head.
//!
//! The site signs the newest head that it has verified ([`observation`]) and judges those of its peers ([`compare`]). A
//! server that has shown two sites two histories cannot prove that their heads agree: that raises an alarm with both
//! heads as evidence. The first key of a peer is accepted as the server relays it, and another one only by signed
//! changes of key; a steward may confirm the fingerprint with the peer's operator ([`confirm`]).

use ed25519_dalek::VerifyingKey;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use time::{Duration, OffsetDateTime, UtcOffset};
use undertone_api::id::WorkerId;
use undertone_api::log::peers::{PeerError, PeerHead, VerifiedPeer};
use undertone_api::signed::{HeadObservation, LogHead, Signed, SigningAuthority, key_id, public_key};

use super::alarm;
use super::head;
use crate::clock::format_time;
use crate::keys::SiteKey;
use crate::peer_keys::{PinError, parse_fingerprint};
use crate::store::{Store, StoreError, sql};

/// Age of a peer's newest observation from which the site reports it as old.
pub const OLD_AFTER: Duration = Duration::days(7);

/// A peer as this site knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeer {
    /// The peer's worker.
    pub worker: WorkerId,
    /// The worker's name.
    pub worker_name: String,
    /// The name of its organization.
    pub organization_name: String,
    /// The key's fingerprint: SHA-256 of the public key, hex.
    pub fingerprint: String,
    /// Whether a steward has confirmed the fingerprint.
    pub is_confirmed: bool,
    /// Size of the newest head that agreed with this site's log.
    pub size: u64,
    /// The peer's clock when it signed that head.
    pub observed_at: OffsetDateTime,
    /// Whether the server relays another key, to which no signed change leads.
    pub has_conflict: bool,
}

impl KnownPeer {
    /// Returns whether the newest observation is older than [`OLD_AFTER`]. The peer is off, or the server withholds it.
    pub fn is_old(&self, now: OffsetDateTime) -> bool {
        now - self.observed_at > OLD_AFTER
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeadComparison {
    /// Peers whose heads agree with this site's.
    pub agreed: usize,
    /// Invalid observations, with the reason; they are no evidence against the server.
    pub rejected: Vec<String>,
    /// The raised alarm.
    pub fork: Option<PeerError>,
}

/// The newest head that this site has verified, with the server's signature.
pub type OwnHead = (LogHead, Signed);

/// Signs the newest head that this site has verified, and returns both; `None` before the first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn observation(
    store: &Store,
    worker: WorkerId,
    key: &SiteKey,
    now: OffsetDateTime,
) -> Result<Option<(OwnHead, Signed)>, StoreError> {
    let Some(own) = head(store)? else { return Ok(None) };
    let document = HeadObservation { worker, head: own.1.clone(), observed_at: now };
    let observation = key.sign(&document).map_err(StoreError::row)?;
    Ok(Some((own, observation)))
}

/// Compares the observations of peers with `own`, stores those that agree, and raises an alarm at the first fork.
///
/// # Errors
/// [`StoreError`] when the database fails; the peers must be asked again.
pub fn compare(
    store: &Store,
    server: &dyn SigningAuthority,
    own: &OwnHead,
    peers: &[PeerHead],
    now: OffsetDateTime,
) -> Result<HeadComparison, StoreError> {
    let mut comparison = HeadComparison::default();
    for peer in peers {
        let key = store.read(|db| find_peer_key(db, peer.worker))?;
        match peer.verify(server, &own.0, key.as_ref()) {
            Ok(verified) => {
                store.write(|tx| keep_peer(tx, peer, &verified, now))?;
                comparison.agreed += 1;
            }
            Err(fork @ PeerError::Forked { .. }) => {
                let evidence = serde_json::json!({
                    "own_head": own.1,
                    "peer": peer.worker,
                    "peer_key": peer.public_key,
                    "peer_observation": peer.observation,
                    "consistency": peer.consistency.iter().map(hex::encode).collect::<Vec<_>>(),
                });
                alarm::raise(store, &fork.to_string(), &evidence.to_string(), now)?;
                comparison.fork = Some(fork);
                return Ok(comparison);
            }
            Err(error) => {
                if matches!(error, PeerError::Key(_)) {
                    store.write(|tx| note_conflict(tx, peer))?;
                }
                comparison.rejected.push(format!("{} of {}: {error}", peer.worker_name, peer.organization_name));
            }
        }
    }
    Ok(comparison)
}

/// Returns the peers, by organization and name.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn list_peers(db: &Connection) -> Result<Vec<KnownPeer>, StoreError> {
    let read = |error| StoreError::sqlite("read peers")(error);
    let mut statement = db
        .prepare(
            "SELECT worker, worker_name, organization_name, public_key, confirmed_at IS NOT NULL, size, observed_at,
                    conflicting_key IS NOT NULL
             FROM peer ORDER BY organization_name, worker_name, worker",
        )
        .map_err(read)?;
    let rows = statement.query_map([], peer_row).map_err(read)?.collect::<rusqlite::Result<Vec<_>>>().map_err(read)?;
    rows.into_iter().collect()
}

/// Marks a peer's key as confirmed, if `fingerprint` is its whole fingerprint, and ends a conflict: a conflicting key with
/// this fingerprint takes the place of the known one. Returns whether a peer has such a key.
///
/// # Errors
/// [`PinError`] when the text is not a whole fingerprint, or the database fails.
pub fn confirm(store: &Store, worker_name: &str, fingerprint: &str, now: OffsetDateTime) -> Result<bool, PinError> {
    let fingerprint = parse_fingerprint(fingerprint)?;
    let is_confirmed = store.write(|tx| -> Result<bool, StoreError> {
        let read = |error| StoreError::sqlite("read peers")(error);
        let mut statement =
            tx.prepare("SELECT worker, public_key, conflicting_key FROM peer WHERE worker_name = ?1").map_err(read)?;
        let rows = statement
            .query_map([worker_name], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
            })
            .map_err(read)?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(read)?;
        for (worker, key, conflict) in rows {
            let candidates = [Some(key), conflict];
            let mut candidates = candidates.into_iter().flatten();
            let matching = candidates.find(|key| public_key(key).is_ok_and(|key| key_id(&key) == fingerprint));
            if let Some(key) = matching {
                let change = tx.execute(
                    "UPDATE peer SET public_key = ?2, confirmed_at = ?3, conflicting_key = NULL WHERE worker = ?1",
                    params![worker, key, format_time(now)],
                );
                change.map_err(StoreError::sqlite("confirm a peer"))?;
                return Ok(true);
            }
        }
        Ok(false)
    })?;
    Ok(is_confirmed)
}

fn peer_row(row: &Row<'_>) -> rusqlite::Result<Result<KnownPeer, StoreError>> {
    let worker: String = row.get(0)?;
    let key: String = row.get(3)?;
    let observed_at: String = row.get(6)?;
    let (worker_name, organization_name) = (row.get(1)?, row.get(2)?);
    let (is_confirmed, size, has_conflict) = (row.get(4)?, row.get::<_, i64>(5)? as u64, row.get(7)?);
    let parsed = || {
        let key = public_key(&key).map_err(StoreError::row)?;
        Ok(KnownPeer {
            worker: worker.parse().map_err(StoreError::row)?,
            worker_name,
            organization_name,
            fingerprint: key_id(&key),
            is_confirmed,
            size,
            observed_at: OffsetDateTime::parse(&observed_at, &time::format_description::well_known::Rfc3339)
                .map_err(StoreError::row)?,
            has_conflict,
        })
    };
    Ok(parsed())
}

pub(super) fn find_peer_key(db: &Connection, worker: WorkerId) -> Result<Option<VerifyingKey>, StoreError> {
    let key: Option<String> = db
        .query_row("SELECT public_key FROM peer WHERE worker = ?1", [worker.to_string()], |row| row.get(0))
        .optional()
        .map_err(StoreError::sqlite("look for a peer"))?;
    key.map(|key| public_key(&key).map_err(StoreError::row)).transpose()
}

/// Stores an observation that agrees; one that the peer signed earlier does not replace it.
fn keep_peer(
    tx: &Transaction<'_>,
    peer: &PeerHead,
    verified: &VerifiedPeer,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    // The time is limited to the present: a clock that runs ahead must not hide later silence.
    let observed_at = verified.observed_at.min(now).to_offset(UtcOffset::UTC);
    tx.execute(
        "INSERT INTO peer (worker, worker_name, organization_name, public_key, first_seen_at, size, observed_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (worker) DO UPDATE SET worker_name = ?2, organization_name = ?3, public_key = ?4,
            conflicting_key = NULL, size = max(size, ?6), observed_at = max(observed_at, ?7)",
        params![
            peer.worker.to_string(),
            peer.worker_name,
            peer.organization_name,
            hex::encode(verified.key.to_bytes()),
            format_time(now),
            sql(verified.head.size),
            format_time(observed_at),
        ],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("keep a peer"))
}

fn note_conflict(tx: &Transaction<'_>, peer: &PeerHead) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE peer SET conflicting_key = ?2 WHERE worker = ?1",
        params![peer.worker.to_string(), peer.public_key],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("note another key of a peer"))
}

/// Stores a peer of the organization `South` for a test, with an optional conflicting key.
///
/// # Errors
/// [`StoreError`] when the database fails.
#[cfg(any(test, feature = "testing"))]
pub fn insert_in_test(
    store: &Store,
    worker_name: &str,
    observed_at: OffsetDateTime,
    conflicting_key: Option<&str>,
) -> Result<(), StoreError> {
    let key = ed25519_dalek::SigningKey::from_bytes(&[2; 32]).verifying_key();
    let values = params![
        uuid::Uuid::nil().to_string(),
        worker_name,
        hex::encode(key),
        format_time(observed_at),
        conflicting_key
    ];
    store.write(|tx| {
        tx.execute("INSERT INTO peer VALUES (?1, ?2, 'South', ?3, NULL, ?4, 5, ?4, ?5)", values)
            .map(|_| ())
            .map_err(StoreError::sqlite("insert a peer"))
    })
}

#[cfg(test)]
mod tests;
