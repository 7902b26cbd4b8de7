//! Keys of a round: those that a site derives from the secret of the round, and those that two sites derive from each
//! other's X25519 keys.

use hkdf::Hkdf;
use sha2::{Digest as _, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::round::RoundContext;
use crate::seal::HeldShares;
use crate::sharing::{Secret, split};
use crate::site_set::SiteIndex;

/// HKDF-SHA-256 (RFC 5869) with the digest of the round as salt.
fn derive(context: &RoundContext, secret: &[u8; 32], info: &[&[u8]]) -> Secret {
    let mut key = Zeroizing::new([0; 32]);
    let hkdf = Hkdf::<Sha256>::new(Some(context.digest()), secret);
    // The length of the output is below the limit of 255 digests.
    if hkdf.expand_multi_info(info, key.as_mut()).is_err() {
        unreachable!("32 bytes are less than 255 digests of SHA-256");
    }
    key
}

/// The secrets of one site in one round. All derive from a single one, so that a site that starts again makes the same
/// messages.
pub struct RoundSecrets {
    mask: Secret,
    channel: Secret,
    seed: Secret,
    seed_sharing: Secret,
    mask_sharing: Secret,
}

impl RoundSecrets {
    /// Derives the secrets of a round from the round's random secret.
    pub fn derive(context: &RoundContext, secret: &[u8; 32]) -> Self {
        Self {
            mask: derive(context, secret, &[b"mask key"]),
            channel: derive(context, secret, &[b"channel key"]),
            seed: derive(context, secret, &[b"self mask"]),
            seed_sharing: derive(context, secret, &[b"sharing of the self mask"]),
            mask_sharing: derive(context, secret, &[b"sharing of the mask key"]),
        }
    }

    /// Returns the X25519 secret of the pairwise masks.
    pub const fn mask(&self) -> &Secret {
        &self.mask
    }

    /// Returns the X25519 secret of the sealed shares.
    pub const fn channel(&self) -> &Secret {
        &self.channel
    }

    /// Returns the key of the site's own mask.
    pub const fn seed(&self) -> &Secret {
        &self.seed
    }

    /// Returns the shares of seed and mask secret for each site of the roster.
    pub(crate) fn split(&self, threshold: u8, sites: usize) -> OwnShares {
        OwnShares {
            seeds: split(&self.seed, threshold, sites, &self.seed_sharing),
            keys: split(&self.mask, threshold, sites, &self.mask_sharing),
        }
    }
}

/// A site's shares of its own secrets, by the index of the receiving site.
pub(crate) struct OwnShares {
    seeds: Vec<Secret>,
    keys: Vec<Secret>,
}

impl OwnShares {
    /// Returns the two shares for a site of the roster.
    pub(crate) fn for_site(&self, site: SiteIndex) -> Option<HeldShares> {
        let place = usize::from(site);
        Some(HeldShares { seed: self.seeds.get(place)?.clone(), key: self.keys.get(place)?.clone() })
    }
}

/// Returns the X25519 public key of a secret.
pub fn public_key(secret: &[u8; 32]) -> [u8; 32] {
    PublicKey::from(&StaticSecret::from(*secret)).to_bytes()
}

/// Returns the shared secret of X25519 (RFC 7748), or `None` for a public key of small order, whose result does not
/// depend on the secret.
fn agree(secret: &[u8; 32], public: &[u8; 32]) -> Option<Secret> {
    let shared = StaticSecret::from(*secret).diffie_hellman(&PublicKey::from(*public));
    shared.was_contributory().then(|| Zeroizing::new(shared.to_bytes()))
}

/// Returns the key of the mask between two sites, from the mask secret of one and the public mask key of the other.
pub fn mask_key(context: &RoundContext, secret: &[u8; 32], public: &[u8; 32], pair: [SiteIndex; 2]) -> Option<Secret> {
    let ends = [pair[0].min(pair[1]), pair[0].max(pair[1])];
    Some(derive(context, &*agree(secret, public)?, &[b"pairwise mask", &ends]))
}

/// Returns the key that seals the shares on the way from one site to another, for one list of advertisements.
pub fn channel_key(
    context: &RoundContext,
    secret: &[u8; 32],
    public: &[u8; 32],
    way: [SiteIndex; 2],
    advertisements: &[u8; 32],
) -> Option<Secret> {
    Some(derive(context, &*agree(secret, public)?, &[b"sealed shares", &way, advertisements]))
}

/// Returns the commitment of a site to the seed of its own mask. The seed is uniform in 256 bits, so that its digest
/// hides it.
pub fn commit(context: &RoundContext, site: SiteIndex, seed: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix("undertone secure aggregation: seed");
    hash.update(context.digest());
    hash.update([site]);
    hash.update(seed);
    hash.finalize().into()
}
