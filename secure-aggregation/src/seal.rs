//! Sealed shares: the two shares that one site gives another, under ChaCha20-Poly1305 (RFC 8439).
//!
//! The key is that of one direction between two sites in one round and for one list of advertisements, and seals one
//! message. So the nonce is 0.

use chacha20poly1305::aead::{Aead as _, KeyInit as _};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use zeroize::Zeroizing;

use crate::sharing::Secret;

/// The bytes of two sealed shares, with the tag.
pub(crate) const SEALED: usize = 80;

/// The shares that a site holds of one peer.
pub(crate) struct HeldShares {
    /// The share of the seed of the peer's own mask.
    pub(crate) seed: Secret,
    /// The share of the peer's mask secret.
    pub(crate) key: Secret,
}

/// Seals the shares of the seed and of the mask secret.
pub(crate) fn seal(key: &[u8; 32], shares: &HeldShares) -> Vec<u8> {
    let mut plain = Zeroizing::new([0; 64]);
    plain[..32].copy_from_slice(shares.seed.as_slice());
    plain[32..].copy_from_slice(shares.key.as_slice());
    match ChaCha20Poly1305::new(key.into()).encrypt(&Nonce::default(), plain.as_slice()) {
        Ok(sealed) => sealed,
        Err(_) => unreachable!("64 bytes are less than the limit of the cipher"),
    }
}

/// Opens sealed shares, or returns `None` when they were sealed under another key or changed.
pub(crate) fn open(key: &[u8; 32], sealed: &[u8]) -> Option<HeldShares> {
    if sealed.len() != SEALED {
        return None;
    }
    let plain = Zeroizing::new(ChaCha20Poly1305::new(key.into()).decrypt(&Nonce::default(), sealed).ok()?);
    let part = |bytes: &[u8]| Some(Zeroizing::new(<[u8; 32]>::try_from(bytes).ok()?));
    Some(HeldShares { seed: part(plain.get(..32)?)?, key: part(plain.get(32..)?)? })
}
