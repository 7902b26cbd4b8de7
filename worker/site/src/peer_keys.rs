//! The identity keys of other sites that this site trusts, for the groups of secure aggregation (`privacy.md`, 14.8).
//!
//! A lying server could name keys of its own and be every other site of a group. So a key counts in two cases. An
//! operator has pinned its fingerprint at this site's terminal, after comparing it with the other site's operator
//! ([`pin`]). Or the peer signs heads of the server's log with it, and a steward has confirmed its fingerprint
//! ([`super::witness::peers::confirm`]).

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use rusqlite::{Connection, params};
use time::OffsetDateTime;
use undertone_api::signed::{key_id, public_key};

use super::clock::format_time;
use super::store::{Store, StoreError};

/// The number of characters of a fingerprint: SHA-256 of the public key, hex.
pub const FINGERPRINT: usize = 64;
/// Most fingerprints that a site pins at a time.
pub const MOST_PINS: usize = 1000;
/// Most characters of a label.
pub const MOST_LABEL: usize = 100;

/// A key that this site knows from its pins or from its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerKey {
    /// The fingerprint: SHA-256 of the public key, hex.
    pub fingerprint: String,
    /// The organization and the worker, as the server names them; `None` for a pinned key that signs no heads yet.
    pub peer: Option<(String, String)>,
    /// The operator's label of a pin; `None` for a key that is not pinned.
    pub label: Option<String>,
    /// Whether a steward has confirmed the fingerprint of a peer's heads.
    pub is_confirmed: bool,
}

impl PeerKey {
    /// Returns whether the key counts in a group.
    pub const fn is_trusted(&self) -> bool {
        self.label.is_some() || self.is_confirmed
    }
}

/// Reasons why a fingerprint cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The text is not a fingerprint.
    #[error(
        "`{0}` is not a fingerprint of {FINGERPRINT} hex digits: take it from `undertone-worker peers list` at the other site"
    )]
    Fingerprint(String),
    /// The label is too long, or has control characters.
    #[error("the label must have at most {MOST_LABEL} printable characters")]
    Label,
    /// The limit is reached.
    #[error("this site pins {MOST_PINS} keys already: remove one first with `undertone-worker peers unpin`")]
    TooMany,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Parses a typed fingerprint: blanks, colons and upper case are allowed.
///
/// # Errors
/// [`PinError::Fingerprint`] when it has not 64 hex digits.
pub fn parse_fingerprint(text: &str) -> Result<String, PinError> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    let digits = digits.to_ascii_lowercase();
    if digits.len() == FINGERPRINT && digits.chars().all(|c| c.is_ascii_hexdigit()) {
        Ok(digits)
    } else {
        Err(PinError::Fingerprint(text.escape_debug().collect()))
    }
}

/// Pins a fingerprint; returns false when it is pinned already.
///
/// # Errors
/// [`PinError`] when fingerprint or label are not valid, too many are pinned, or the database fails.
pub fn pin(store: &Store, fingerprint: &str, label: &str, now: OffsetDateTime) -> Result<bool, PinError> {
    let fingerprint = parse_fingerprint(fingerprint)?;
    if label.chars().count() > MOST_LABEL || label.chars().any(char::is_control) {
        return Err(PinError::Label);
    }
    let pins = store.read(pins)?;
    if pins.contains_key(&fingerprint) {
        return Ok(false);
    }
    if pins.len() >= MOST_PINS {
        return Err(PinError::TooMany);
    }
    record_pin(store, &fingerprint, true, label, now)?;
    Ok(true)
}

/// Ends the trust in a key: removes its pin, and the confirmation of a peer with this key. Returns false when the key
/// was not trusted. A group with the key is refused from its next round on.
///
/// # Errors
/// [`PinError`] when the fingerprint is not valid, or the database fails.
pub fn unpin(store: &Store, fingerprint: &str, now: OffsetDateTime) -> Result<bool, PinError> {
    let fingerprint = parse_fingerprint(fingerprint)?;
    let is_pinned = store.read(pins)?.contains_key(&fingerprint);
    if is_pinned {
        record_pin(store, &fingerprint, false, "", now)?;
    }
    let confirmed = store.read(confirmed_peers)?.into_iter().filter(|(_, known)| *known == fingerprint);
    let workers: Vec<String> = confirmed.map(|(worker, _)| worker).collect();
    for worker in &workers {
        store.write(|tx| {
            tx.execute("UPDATE peer SET confirmed_at = NULL WHERE worker = ?1", [worker])
                .map(|_| ())
                .map_err(StoreError::sqlite("withdraw the confirmation of a peer"))
        })?;
    }
    Ok(is_pinned || !workers.is_empty())
}

/// Returns the keys that this site knows: those of its peers by organization and worker, then the other pinned ones.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn list(db: &Connection) -> Result<Vec<PeerKey>, StoreError> {
    let mut pins = pins(db)?;
    let read = |error| StoreError::sqlite("read peers")(error);
    let mut statement = db
        .prepare(
            "SELECT organization_name, worker_name, public_key, confirmed_at IS NOT NULL
             FROM peer ORDER BY organization_name, worker_name, worker",
        )
        .map_err(read)?;
    let rows = statement
        .query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get::<_, String>(2)?, row.get(3)?)))
        .map_err(read)?
        .collect::<rusqlite::Result<Vec<_>>>()
        .map_err(read)?;
    let mut keys = Vec::with_capacity(rows.len() + pins.len());
    for (peer, key, is_confirmed) in rows {
        let fingerprint = key_id(&public_key(&key).map_err(StoreError::row)?);
        let label = pins.remove(&fingerprint);
        keys.push(PeerKey { fingerprint, peer: Some(peer), label, is_confirmed });
    }
    keys.extend(pins.into_iter().map(|(fingerprint, label)| PeerKey {
        fingerprint,
        peer: None,
        label: Some(label),
        is_confirmed: false,
    }));
    Ok(keys)
}

/// The fingerprints of the keys that count in a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedKeys(Vec<String>);

impl TrustedKeys {
    /// Reads the pinned fingerprints, and those of confirmed peers.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub fn read(db: &Connection) -> Result<Self, StoreError> {
        let trusted = list(db)?.into_iter().filter(PeerKey::is_trusted);
        Ok(Self(trusted.map(|key| key.fingerprint).collect()))
    }

    /// Returns whether a key counts.
    pub fn contains(&self, key: &VerifyingKey) -> bool {
        self.0.contains(&key_id(key))
    }
}

/// Returns the labels of the pinned fingerprints.
fn pins(db: &Connection) -> Result<BTreeMap<String, String>, StoreError> {
    let read = |error| StoreError::sqlite("read pinned peers")(error);
    let mut statement = db
        .prepare(
            "SELECT fingerprint, label FROM peer_pin WHERE pinned AND id IN
             (SELECT max(id) FROM peer_pin GROUP BY fingerprint)",
        )
        .map_err(read)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(read)?;
    rows.collect::<rusqlite::Result<_>>().map_err(read)
}

/// Returns worker and fingerprint of the peers whose keys a steward has confirmed.
fn confirmed_peers(db: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let read = |error| StoreError::sqlite("read peers")(error);
    let mut statement =
        db.prepare("SELECT worker, public_key FROM peer WHERE confirmed_at IS NOT NULL").map_err(read)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).map_err(read)?;
    let rows = rows.collect::<rusqlite::Result<Vec<(String, String)>>>().map_err(read)?;
    rows.into_iter().map(|(worker, key)| Ok((worker, key_id(&public_key(&key).map_err(StoreError::row)?)))).collect()
}

fn record_pin(
    store: &Store,
    fingerprint: &str,
    pinned: bool,
    label: &str,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO peer_pin (fingerprint, pinned, label, at) VALUES (?1, ?2, ?3, ?4)",
            params![fingerprint, pinned, label, format_time(now)],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("record a pinned peer"))
    })
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{SigningKey, VerifyingKey};
    use time::OffsetDateTime;
    use undertone_api::signed::key_id;

    use super::{MOST_LABEL, PinError, TrustedKeys, list, pin, unpin};
    use crate::store::Store;
    use crate::witness::peers::{confirm, insert_in_test};

    const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        (dir, store)
    }

    fn key(seed: u8) -> VerifyingKey {
        SigningKey::from_bytes(&[seed; 32]).verifying_key()
    }

    fn is_trusted(store: &Store, key: &VerifyingKey) -> bool {
        store.read(TrustedKeys::read).expect("it is open").contains(key)
    }

    #[test]
    fn pinned_key_counts_until_it_is_unpinned() {
        let (_dir, store) = store();
        let fingerprint = key_id(&key(1));
        assert!(!is_trusted(&store, &key(1)));
        let typed = format!(" {}:{}", fingerprint[..32].to_uppercase(), &fingerprint[32..]);
        assert!(pin(&store, &typed, "ward of South", AT).expect("a fingerprint"));
        assert!(!pin(&store, &fingerprint, "", AT).expect("a fingerprint"), "once");
        assert!(is_trusted(&store, &key(1)) && !is_trusted(&store, &key(2)));
        let known = store.read(list).expect("it is open");
        assert!(known.len() == 1 && known[0].label.as_deref() == Some("ward of South") && known[0].peer.is_none());
        assert!(unpin(&store, &fingerprint, AT).expect("a fingerprint"));
        assert!(!unpin(&store, &fingerprint, AT).expect("a fingerprint"));
        assert!(!is_trusted(&store, &key(1)));
        assert!(pin(&store, &fingerprint, "", AT).expect("a fingerprint") && is_trusted(&store, &key(1)), "again");
    }

    #[test]
    fn peer_counts_when_a_steward_has_confirmed_its_key() {
        let (_dir, store) = store();
        insert_in_test(&store, "ward", AT, None).expect("a row");
        assert!(!is_trusted(&store, &key(2)), "the server's word alone");
        let fingerprint = key_id(&key(2));
        assert!(confirm(&store, "ward", &fingerprint, AT).expect("it is open"));
        assert!(is_trusted(&store, &key(2)));
        let known = store.read(list).expect("it is open");
        assert_eq!(known[0].peer, Some(("South".to_owned(), "ward".to_owned())));
        assert!(unpin(&store, &fingerprint, AT).expect("a fingerprint"));
        assert!(!is_trusted(&store, &key(2)), "the confirmation is withdrawn");
    }

    #[test]
    fn text_that_is_no_whole_fingerprint_is_refused() {
        let (_dir, store) = store();
        let whole = key_id(&key(1));
        for text in ["", &whole[..63], &whole[..16], &format!("{whole}0"), &whole.replace(&whole[..1], "x")] {
            assert!(matches!(pin(&store, text, "", AT), Err(PinError::Fingerprint(_))), "{text}");
        }
        for label in ["x".repeat(MOST_LABEL + 1), "a\nb".to_owned()] {
            assert!(matches!(pin(&store, &whole, &label, AT), Err(PinError::Label)));
        }
    }
}
