//! Shamir's scheme for secrets of 32 bytes, over GF(2⁸) byte by byte (the `blahaj` crate).
//!
//! The share of the site with index i is the value of the polynomials at i + 1. The index is not part of a share, so
//! that a dishonest site cannot hand in a share of another place.

use blahaj::{Share, Sharks};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use zeroize::Zeroizing;

use crate::site_set::SiteIndex;

/// A secret of 32 bytes, or a share of one, erased when dropped.
pub type Secret = Zeroizing<[u8; 32]>;

/// Splits a secret into shares for the sites 0 to `sites` − 1, of which `threshold` restore it and fewer tell nothing.
/// `seed` determines the polynomials and must be as secret as the secret itself.
pub fn split(secret: &[u8; 32], threshold: u8, sites: usize, seed: &[u8; 32]) -> Vec<Secret> {
    let mut rng = ChaCha20Rng::from_seed(*seed);
    let dealer = Sharks(threshold).dealer_rng(secret, &mut rng);
    dealer.take(sites).map(|share| value(&Zeroizing::new(Vec::from(&share)))).collect()
}

/// Returns the 32 values of a share, without its place.
fn value(bytes: &[u8]) -> Secret {
    let mut share = Zeroizing::new([0; 32]);
    share.copy_from_slice(&bytes[1..]);
    share
}

/// Restores a secret from the shares of different sites, each with its site's index. Returns `None` for fewer shares
/// than `threshold`, or a site with two shares. False shares restore another secret.
pub fn restore<'a>(threshold: u8, shares: impl IntoIterator<Item = (SiteIndex, &'a [u8; 32])>) -> Option<Secret> {
    let mut placed: Vec<Share> = Vec::new();
    let mut places = crate::site_set::SiteSet::default();
    for (site, share) in shares.into_iter().take(usize::from(threshold)) {
        if !places.insert(site) {
            return None;
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(33));
        bytes.push(site + 1);
        bytes.extend(share);
        placed.push(Share::try_from(bytes.as_slice()).ok()?);
    }
    let restored = Zeroizing::new(Sharks(threshold).recover(&placed).ok()?);
    let mut secret = Zeroizing::new([0; 32]);
    secret.copy_from_slice(restored.get(..32)?);
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::{restore, split};

    #[test]
    fn any_group_restores_and_fewer_do_not() {
        let secret: [u8; 32] = std::array::from_fn(|at| at as u8 * 7 + 1);
        let shares = split(&secret, 3, 5, &[9; 32]);
        for set in 0_u32..32 {
            let chosen =
                || (0..5).filter(move |site| set >> site & 1 == 1).map(|site| (site, &*shares[usize::from(site)]));
            let restored = restore(3, chosen());
            assert_eq!(restored.is_some(), set.count_ones() >= 3, "{set:b}");
            assert!(restored.is_none_or(|restored| *restored == secret), "{set:b}");
        }
        assert!(restore(2, [(1, &*shares[1]), (1, &*shares[1])]).is_none());
        // Two shares of three leave every secret possible: here they restore another one.
        assert_ne!(restore(2, [(0, &*shares[0]), (1, &*shares[1])]).map(|secret| *secret), Some(secret));
    }

    #[test]
    fn share_at_another_place_restores_another_secret() {
        let shares = split(&[5; 32], 2, 3, &[1; 32]);
        assert_ne!(restore(2, [(0, &*shares[0]), (2, &*shares[1])]).map(|secret| *secret), Some([5; 32]));
    }
}
