//! The group of a job: its sites, its threshold, and the conditions under which a site takes part.

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::site_set::SiteIndex;

/// The least number of sites of a roster.
pub const LEAST_SITES: usize = 3;
/// The highest number of sites of a roster.
pub const MOST_SITES: usize = 50;

/// The threshold of a group, as the signed manifest states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTerms {
    /// n: the least number of sites whose vectors a sum may have, and the number of shares that restore a secret.
    pub smallest_group: u8,
    /// t: the number of sites that may collude with the server.
    pub colluding: u8,
}

impl GroupTerms {
    /// Returns the least number of honest sites in a sum, n − t.
    pub const fn least_honest(self) -> u8 {
        self.smallest_group.saturating_sub(self.colluding)
    }
}

/// The conditions of a site's own policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPolicy {
    /// h: the least number of honest sites in a sum that the site accepts.
    pub least_honest: u8,
}

impl Default for GroupPolicy {
    fn default() -> Self {
        Self { least_honest: 2 }
    }
}

/// Reasons why a roster is not valid, or why a site does not accept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// The number of sites is outside its range.
    #[error("the roster has {0} sites: secure aggregation is for {LEAST_SITES} to {MOST_SITES}")]
    SiteCount(usize),
    /// A key is not a point of the curve, or one of small order.
    #[error("the identity key of site {0} is not a valid Ed25519 key")]
    InvalidKey(SiteIndex),
    /// One key stands for two sites.
    #[error("sites {0} and {1} have the same identity key")]
    DuplicateKey(SiteIndex, SiteIndex),
    /// The smallest group exceeds the roster.
    #[error("smallest_group {smallest_group} exceeds the {sites} sites of the roster")]
    GroupTooLarge {
        /// n.
        smallest_group: u8,
        /// P.
        sites: usize,
    },
    /// Colluding sites and the server could obtain both secrets of a site.
    #[error(
        "smallest_group {smallest_group} is too small for {sites} sites of which {colluding} collude: at least {least}"
    )]
    GroupTooSmall {
        /// n.
        smallest_group: u8,
        /// P.
        sites: usize,
        /// t.
        colluding: u8,
        /// The least n with 2n > P + t.
        least: usize,
    },
    /// The site is not part of the group.
    #[error("this site's identity key is not in the roster")]
    NotMember,
    /// A key is neither pinned nor certified and confirmed.
    #[error("the identity key of site {0} is neither pinned here nor certified and confirmed by a steward")]
    UntrustedKey(SiteIndex),
    /// Fewer honest sites than the policy asks for.
    #[error(
        "smallest_group less colluding leaves {honest} honest sites: this site's policy asks for at least {least_honest}"
    )]
    TooFewHonest {
        /// n − t.
        honest: u8,
        /// h.
        least_honest: u8,
    },
}

/// A group with valid terms. It says nothing about the trust in its keys: a site needs an [`AcceptedRoster`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    keys: Vec<VerifyingKey>,
    terms: GroupTerms,
    digest: [u8; 32],
}

impl Roster {
    /// Makes the roster of a manifest with this SHA-256 digest. The order of the identity keys (Ed25519) defines the
    /// indices of the sites.
    ///
    /// # Errors
    /// [`RosterError`] when the number of sites, a key, or the terms are not valid.
    pub fn new(manifest: [u8; 32], keys: &[[u8; 32]], terms: GroupTerms) -> Result<Self, RosterError> {
        let sites = keys.len();
        if !(LEAST_SITES..=MOST_SITES).contains(&sites) {
            return Err(RosterError::SiteCount(sites));
        }
        let GroupTerms { smallest_group, colluding } = terms;
        if usize::from(smallest_group) > sites {
            return Err(RosterError::GroupTooLarge { smallest_group, sites });
        }
        let least = usize::midpoint(sites, usize::from(colluding)) + 1;
        if usize::from(smallest_group) < least {
            return Err(RosterError::GroupTooSmall { smallest_group, sites, colluding, least });
        }
        let mut parsed: Vec<VerifyingKey> = Vec::with_capacity(sites);
        for (site, key) in keys.iter().enumerate() {
            let site = site as SiteIndex;
            let key = VerifyingKey::from_bytes(key).map_err(|_| RosterError::InvalidKey(site))?;
            if key.is_weak() {
                return Err(RosterError::InvalidKey(site));
            }
            if let Some(other) = parsed.iter().position(|other| *other == key) {
                return Err(RosterError::DuplicateKey(other as SiteIndex, site));
            }
            parsed.push(key);
        }
        let mut hash = Sha256::new_with_prefix("undertone secure aggregation: roster");
        hash.update(manifest);
        hash.update([smallest_group, colluding, sites as u8]);
        for key in keys {
            hash.update(key);
        }
        Ok(Self { keys: parsed, terms, digest: hash.finalize().into() })
    }

    /// Checks the roster against a site's policy and trusted keys. `is_trusted` returns whether the site has pinned a
    /// peer's key, or whether the consortium's log certifies it and a steward has confirmed its fingerprint.
    ///
    /// # Errors
    /// [`RosterError`] when the site's key is missing, the group is too small for the policy, or a peer's key is not
    /// trusted.
    pub fn accept(
        self,
        own: &VerifyingKey,
        policy: GroupPolicy,
        is_trusted: impl Fn(&VerifyingKey) -> bool,
    ) -> Result<AcceptedRoster, RosterError> {
        let index = self.keys.iter().position(|key| key == own).ok_or(RosterError::NotMember)?;
        let honest = self.terms.least_honest();
        if honest < policy.least_honest {
            return Err(RosterError::TooFewHonest { honest, least_honest: policy.least_honest });
        }
        if let Some(site) = self.keys.iter().position(|key| key != own && !is_trusted(key)) {
            return Err(RosterError::UntrustedKey(site as SiteIndex));
        }
        Ok(AcceptedRoster { roster: self, index: index as SiteIndex })
    }

    /// Returns the number of sites.
    pub fn sites(&self) -> usize {
        self.keys.len()
    }

    /// Returns the threshold.
    pub const fn terms(&self) -> GroupTerms {
        self.terms
    }

    /// Returns the identity key of a site, if the roster has one.
    pub fn key(&self, site: SiteIndex) -> Option<&VerifyingKey> {
        self.keys.get(usize::from(site))
    }

    /// Returns the SHA-256 digest of manifest, terms and keys.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Returns whether so many sites are a group.
    pub const fn is_group(&self, sites: usize) -> bool {
        sites >= self.terms.smallest_group as usize
    }
}

/// A roster whose keys a site trusts and whose terms its policy allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedRoster {
    roster: Roster,
    index: SiteIndex,
}

impl AcceptedRoster {
    /// Returns the roster.
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Returns the index of the accepting site.
    pub const fn index(&self) -> SiteIndex {
        self.index
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::{AcceptedRoster, GroupPolicy, GroupTerms, MOST_SITES, Roster, RosterError};

    fn keys(sites: usize) -> Vec<[u8; 32]> {
        (0..sites).map(|site| SigningKey::from_bytes(&[site as u8 + 1; 32]).verifying_key().to_bytes()).collect()
    }

    fn roster(sites: usize, smallest_group: u8, colluding: u8) -> Result<Roster, RosterError> {
        Roster::new([7; 32], &keys(sites), GroupTerms { smallest_group, colluding })
    }

    #[test]
    fn terms_without_a_majority_are_refused() {
        for sites in (3..=8).chain([MOST_SITES]) {
            let keys = keys(sites);
            for colluding in 0..sites as u8 {
                for smallest_group in 0..=sites as u8 + 1 {
                    let is_valid = usize::from(smallest_group) <= sites
                        && 2 * usize::from(smallest_group) > sites + usize::from(colluding);
                    let result = Roster::new([7; 32], &keys, GroupTerms { smallest_group, colluding });
                    assert_eq!(result.is_ok(), is_valid, "{sites} {smallest_group} {colluding}: {result:?}");
                }
            }
        }
        // The examples of the specification: three sites tolerate a dropout without collusion, and none with it.
        assert!(roster(3, 2, 0).is_ok() && roster(3, 2, 1).is_err() && roster(3, 3, 1).is_ok());
        assert_eq!(roster(2, 2, 0), Err(RosterError::SiteCount(2)));
        assert_eq!(roster(51, 40, 0), Err(RosterError::SiteCount(51)));
    }

    #[test]
    fn false_keys_are_refused() {
        let terms = GroupTerms { smallest_group: 2, colluding: 0 };
        let mut twice = keys(3);
        twice[2] = twice[0];
        assert_eq!(Roster::new([0; 32], &twice, terms), Err(RosterError::DuplicateKey(0, 2)));
        // The neutral element, under which anyone can sign.
        let mut weak = keys(3);
        weak[1] = [0; 32];
        weak[1][0] = 1;
        assert_eq!(Roster::new([0; 32], &weak, terms), Err(RosterError::InvalidKey(1)));
    }

    fn accept(roster: Roster, own: usize, least_honest: u8, trusted: usize) -> Result<AcceptedRoster, RosterError> {
        let all = keys(10);
        let own = SigningKey::from_bytes(&[own as u8 + 1; 32]).verifying_key();
        roster.accept(&own, GroupPolicy { least_honest }, |key| all[..trusted].contains(&key.to_bytes()))
    }

    #[test]
    fn site_accepts_trusted_groups_of_its_policy() {
        let group = || roster(4, 3, 1).expect("valid terms");
        assert_eq!(accept(group(), 2, 2, 4).map(|accepted| accepted.index()), Ok(2));
        assert_eq!(accept(group(), 3, 2, 3).map(|accepted| accepted.index()), Ok(3), "its own key needs no pin");
        assert_eq!(accept(group(), 0, 2, 3), Err(RosterError::UntrustedKey(3)));
        assert_eq!(accept(group(), 5, 2, 6), Err(RosterError::NotMember));
        assert_eq!(accept(group(), 0, 3, 4), Err(RosterError::TooFewHonest { honest: 2, least_honest: 3 }));
        assert_eq!(GroupPolicy::default().least_honest, 2);
    }

    #[test]
    fn digest_depends_on_every_part() {
        let terms = GroupTerms { smallest_group: 3, colluding: 0 };
        let mut swapped = keys(4);
        swapped.swap(0, 1);
        let digests = [
            Roster::new([7; 32], &keys(4), terms),
            Roster::new([8; 32], &keys(4), terms),
            Roster::new([7; 32], &swapped, terms),
            Roster::new([7; 32], &keys(5), GroupTerms { smallest_group: 3, colluding: 0 }),
            Roster::new([7; 32], &keys(4), GroupTerms { smallest_group: 4, colluding: 0 }),
            Roster::new([7; 32], &keys(4), GroupTerms { smallest_group: 3, colluding: 1 }),
        ]
        .map(|roster| *roster.expect("valid terms").digest());
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest), "{at}");
        }
    }
}
