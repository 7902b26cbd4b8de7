//! Renewal of identities without new trust: the server's TLS certificates, signed by the key that every site knows from
//! its enrolment; and the next key of a site, signed by the previous one.
//!
//! This allows no impersonation: a hostile server has no signature of the site's old key, and an attacker on the
//! network has none of the server's. To renew one more kind of identity, add a document here, signed by the preceding
//! identity.

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Document, KeyPurpose, Signed, SignedError, public_key};
use crate::id::WorkerId;

/// A certificate that identifies the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedCertificate {
    /// SHA-256 of the certificate (DER), hex.
    pub sha256: String,
    /// Planned end of its use; `None` if the server does not know.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub until: Option<OffsetDateTime>,
}

/// The certificates that identify the server from now on: the current one first, then the next. Signed by the server's
/// key for one request, so that an older answer cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificatePins {
    /// The site's challenge, hex.
    pub challenge: String,
    /// The certificates; empty if the server does not terminate TLS itself.
    pub certificates: Vec<PinnedCertificate>,
    /// The server's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for CertificatePins {
    const DOMAIN: &'static str = "undertone/pins/1";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Connection);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(self.at)
    }
}

/// A change of a site's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    /// The worker.
    pub worker: WorkerId,
    /// The number of the change at this site, from 1.
    pub number: u32,
    /// The Ed25519 public key until now, hex.
    pub old: String,
    /// The Ed25519 public key from now on, hex.
    pub new: String,
    /// The number of receipts that the site has signed until now: later ones are signed with the new key.
    pub receipts: u64,
    /// Digest of the last of them; that of the empty string if there is none.
    pub last: String,
    /// Time of the change.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for KeyChange {
    const DOMAIN: &'static str = "undertone/key-change/1";
}

/// A change of key that both keys have signed. The old key authorizes the new one, and the new key proves possession.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Rotation))]
pub struct KeyRotation {
    /// A `KeyChange`, signed by the old key.
    pub by_old: Signed,
    /// The same document, byte for byte, signed by the new key.
    pub by_new: Signed,
}

/// The reason why a change of key is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RotationError {
    /// A signature or a key is invalid.
    #[error("a change of the site's key does not hold")]
    Signed(#[from] SignedError),
    /// The two signatures are under different documents.
    #[error("the old and the new key have signed two different changes")]
    Different,
    /// It does not follow the previous change.
    #[error("change {number} of the site's key does not follow the one before it: {problem}")]
    Order {
        /// Its number.
        number: u32,
        /// The mismatch.
        problem: &'static str,
    },
}

impl KeyRotation {
    /// Opens the change, if both keys that it names have signed it.
    ///
    /// # Errors
    /// [`RotationError`] otherwise.
    pub fn open(&self) -> Result<KeyChange, RotationError> {
        let claimed: KeyChange = serde_json::from_str(&self.by_old.payload)
            .map_err(|error| RotationError::Signed(SignedError::Payload(error.to_string())))?;
        if self.by_old.payload != self.by_new.payload {
            return Err(RotationError::Different);
        }
        self.by_new.open::<KeyChange>(&public_key(&claimed.new)?)?;
        Ok(self.by_old.open(&public_key(&claimed.old)?)?)
    }
}

/// The keys of a site, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteKeys {
    worker: Option<WorkerId>,
    newest: VerifyingKey,
    /// Earlier keys, each with the number of the last receipt that it signed.
    earlier: Vec<(u64, VerifyingKey)>,
}

impl SiteKeys {
    /// Returns the keys of a site with a single key.
    pub const fn with_key(key: VerifyingKey) -> Self {
        Self { worker: None, newest: key, earlier: Vec::new() }
    }

    /// Returns the keys of a site whose key is now `newest`, after these changes, oldest first.
    ///
    /// # Errors
    /// [`RotationError`] if a change is invalid, or they do not lead to `newest`.
    pub fn leading_to(newest: VerifyingKey, rotations: &[KeyRotation]) -> Result<Self, RotationError> {
        let Some(first) = rotations.first() else { return Ok(Self::with_key(newest)) };
        let mut keys = Self::with_key(public_key(&first.open()?.old)?);
        for rotation in rotations {
            keys.follow(rotation)?;
        }
        if keys.newest == newest {
            Ok(keys)
        } else {
            Err(RotationError::Order { number: keys.earlier.len() as u32, problem: "it leads to another key" })
        }
    }

    /// Applies the next change.
    ///
    /// # Errors
    /// [`RotationError`] if it is invalid or does not follow. Then nothing changes.
    pub fn follow(&mut self, rotation: &KeyRotation) -> Result<KeyChange, RotationError> {
        let change = rotation.open()?;
        let wrong = |problem| Err(RotationError::Order { number: change.number, problem });
        if public_key(&change.old)? != self.newest {
            return wrong("it follows another key");
        }
        if self.worker.is_some_and(|worker| worker != change.worker) {
            return wrong("it is of another worker");
        }
        if change.number as usize != self.earlier.len() + 1 {
            return wrong("one before it is missing, or it comes twice");
        }
        if self.earlier.last().is_some_and(|(last, _)| *last > change.receipts) {
            return wrong("it names fewer receipts");
        }
        self.worker = Some(change.worker);
        self.earlier.push((change.receipts, self.newest));
        self.newest = public_key(&change.new)?;
        Ok(change)
    }

    /// Returns the key that signs receipt `number`.
    pub fn key_of_receipt(&self, number: u64) -> &VerifyingKey {
        self.earlier.iter().find(|(last, _)| number <= *last).map_or(&self.newest, |(_, key)| key)
    }

    /// Returns the current key.
    pub const fn newest(&self) -> &VerifyingKey {
        &self.newest
    }

    /// Returns the keys, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &VerifyingKey> {
        std::iter::once(&self.newest).chain(self.earlier.iter().rev().map(|(_, key)| key))
    }

    /// Returns whether a key is, or was, one of the site's.
    pub fn includes(&self, key: &VerifyingKey) -> bool {
        self.newest == *key || self.earlier.iter().any(|(_, earlier)| earlier == key)
    }

    /// Returns the number of changes.
    pub const fn changes(&self) -> usize {
        self.earlier.len()
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use time::OffsetDateTime;

    use super::{KeyChange, KeyRotation, RotationError, SiteKeys};
    use crate::id::WorkerId;
    use crate::signed::{Signed, SignedError};

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn hex_of(key: &SigningKey) -> String {
        hex::encode(key.verifying_key().to_bytes())
    }

    fn change(number: u32, old: &SigningKey, new: &SigningKey, receipts: u64) -> KeyChange {
        KeyChange {
            worker: WorkerId(uuid::Uuid::nil()),
            number,
            old: hex_of(old),
            new: hex_of(new),
            receipts,
            last: String::new(),
            at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    fn rotation(change: &KeyChange, old: &SigningKey, new: &SigningKey) -> KeyRotation {
        let sign = |key| Signed::new(change, key).expect("it has a JSON form");
        KeyRotation { by_old: sign(old), by_new: sign(new) }
    }

    #[test]
    fn receipt_has_the_key_of_its_time() {
        let (a, b, c) = (key(1), key(2), key(3));
        let rotations = [rotation(&change(1, &a, &b, 4), &a, &b), rotation(&change(2, &b, &c, 4), &b, &c)];
        let keys = SiteKeys::leading_to(c.verifying_key(), &rotations).expect("they lead there");
        assert_eq!((keys.key_of_receipt(1), keys.key_of_receipt(4)), (&a.verifying_key(), &a.verifying_key()));
        // The second key signed nothing.
        assert_eq!((keys.key_of_receipt(5), keys.newest()), (&c.verifying_key(), &c.verifying_key()));
        assert!(SiteKeys::leading_to(b.verifying_key(), &rotations).is_err(), "they lead elsewhere");
    }

    #[test]
    fn a_server_cannot_put_another_key_in_the_place_of_a_sites() {
        let site = key(1);
        let liar = key(9);
        let claimed = change(1, &site, &liar, 0);
        let forged =
            KeyRotation { by_old: Signed::new(&claimed, &liar).expect("JSON"), ..rotation(&claimed, &liar, &liar) };
        assert_eq!(forged.open(), Err(RotationError::Signed(SignedError::Forged)));
        let mut keys = SiteKeys::with_key(site.verifying_key());
        let own = change(1, &liar, &key(8), 0);
        assert!(matches!(keys.follow(&rotation(&own, &liar, &key(8))), Err(RotationError::Order { .. })));
        assert_eq!(keys, SiteKeys::with_key(site.verifying_key()), "nothing has changed");
    }

    #[test]
    fn key_without_proof_of_possession_is_refused() {
        let (old, new) = (key(1), key(2));
        let claimed = change(1, &old, &new, 0);
        let by = |key: &SigningKey| Signed::new(&claimed, key).expect("JSON");
        let without = KeyRotation { by_old: by(&old), by_new: by(&old) };
        assert_eq!(without.open(), Err(RotationError::Signed(SignedError::Forged)));
        let other = Signed::new(&change(2, &old, &new, 0), &new).expect("JSON");
        assert_eq!(KeyRotation { by_old: by(&old), by_new: other }.open(), Err(RotationError::Different));
    }

    #[test]
    fn changes_come_once_and_in_their_order() {
        let (a, b) = (key(1), key(2));
        let mut keys = SiteKeys::with_key(a.verifying_key());
        assert!(keys.follow(&rotation(&change(2, &a, &b, 0), &a, &b)).is_err());
        keys.follow(&rotation(&change(1, &a, &b, 3), &a, &b)).expect("it is the first");
        assert!(keys.follow(&rotation(&change(1, &a, &b, 3), &a, &b)).is_err());
        assert!(keys.follow(&rotation(&change(2, &b, &a, 2), &b, &a)).is_err(), "fewer receipts than before");
        assert_eq!(keys.changes(), 1);
    }
}
