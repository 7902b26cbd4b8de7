//! The messages of a round, and the signatures on them.

use ed25519_dalek::{Signature, Signer as _, SigningKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::agreement::{RoundSecrets, commit, public_key};
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::round::RoundContext;
use crate::site_set::{SiteIndex, SiteSet};

/// The keys of a site for one round, signed by its identity key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advertisement {
    /// The advertising site.
    pub site: SiteIndex,
    /// The X25519 key of the pairwise masks.
    pub mask_key: [u8; 32],
    /// The X25519 key of the sealed shares.
    pub channel_key: [u8; 32],
    /// The commitment to the seed of the site's own mask.
    pub commitment: [u8; 32],
    /// The Ed25519 signature on all of this and the round, 64 bytes.
    pub signature: Vec<u8>,
}

impl Advertisement {
    pub(crate) fn new(context: &RoundContext, site: SiteIndex, secrets: &RoundSecrets, identity: &SigningKey) -> Self {
        let mut advertisement = Self {
            site,
            mask_key: public_key(secrets.mask()),
            channel_key: public_key(secrets.channel()),
            commitment: commit(context, site, secrets.seed()),
            signature: Vec::new(),
        };
        advertisement.sign(context, identity);
        advertisement
    }

    pub(crate) fn sign(&mut self, context: &RoundContext, identity: &SigningKey) {
        self.signature = identity.sign(&self.signed_bytes(context)).to_bytes().to_vec();
    }

    fn signed_bytes(&self, context: &RoundContext) -> Vec<u8> {
        let mut bytes = b"undertone secure aggregation: advertisement".to_vec();
        bytes.extend(context.digest());
        bytes.push(self.site);
        bytes.extend(self.mask_key);
        bytes.extend(self.channel_key);
        bytes.extend(self.commitment);
        bytes
    }

    pub(crate) fn verify(&self, roster: &Roster, context: &RoundContext) -> Result<(), Refusal> {
        if is_signed_by(roster, self.site, &self.signed_bytes(context), &self.signature)? {
            Ok(())
        } else {
            Err(Refusal::AdvertisementSignature { site: self.site })
        }
    }
}

fn is_signed_by(roster: &Roster, site: SiteIndex, bytes: &[u8], signature: &[u8]) -> Result<bool, Refusal> {
    let key = roster.key(site).ok_or(Refusal::UnknownSite { site })?;
    Ok(Signature::from_slice(signature).is_ok_and(|signature| key.verify_strict(bytes, &signature).is_ok()))
}

/// The verified advertisements of a round, in the order of the sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisementList {
    list: Vec<Advertisement>,
    digest: [u8; 32],
}

impl AdvertisementList {
    /// Verifies the advertisements of a round, in any order.
    ///
    /// # Errors
    /// [`Refusal`] when a site is unknown or appears twice, a signature is false, or the sites are no group.
    pub fn verify(roster: &Roster, context: &RoundContext, mut list: Vec<Advertisement>) -> Result<Self, Refusal> {
        list.sort_by_key(|advertisement| advertisement.site);
        if let Some(pair) = list.windows(2).find(|pair| pair[0].site == pair[1].site) {
            return Err(Refusal::SiteTwice { site: pair[0].site });
        }
        if !roster.is_group(list.len()) {
            let least = roster.terms().smallest_group;
            return Err(Refusal::GroupTooSmall { found: list.len(), least });
        }
        let mut hash = Sha256::new_with_prefix("undertone secure aggregation: advertisements");
        for advertisement in &list {
            advertisement.verify(roster, context)?;
            hash.update(advertisement.signed_bytes(context));
        }
        Ok(Self { list, digest: hash.finalize().into() })
    }

    /// Returns the advertisements.
    pub fn as_slice(&self) -> &[Advertisement] {
        &self.list
    }

    /// Returns the advertisement of a site.
    pub fn get(&self, site: SiteIndex) -> Option<&Advertisement> {
        let place = self.list.binary_search_by_key(&site, |advertisement| advertisement.site).ok()?;
        self.list.get(place)
    }

    /// Returns the advertising sites.
    pub fn sites(&self) -> SiteSet {
        self.list.iter().map(|advertisement| advertisement.site).collect()
    }

    /// Returns the SHA-256 digest of the signed contents.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// The shares of one site's secrets for another site, sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedShares {
    /// The site whose secrets are shared.
    pub from: SiteIndex,
    /// The site that can open them.
    pub to: SiteIndex,
    /// Two shares of 32 bytes and a tag of 16.
    pub ciphertext: Vec<u8>,
}

/// A site's vector under all of its masks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskedVector {
    /// The masking site.
    pub site: SiteIndex,
    /// The sites between which there are pairwise masks: those whose shares arrived.
    pub members: SiteSet,
    /// The coordinates, b bits each.
    pub bytes: Vec<u8>,
}

/// A survivor's signature on the set of survivors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorSignature {
    /// The signing site.
    pub site: SiteIndex,
    /// The Ed25519 signature, 64 bytes.
    pub signature: Vec<u8>,
}

/// The statement that a survivor signs: whose vectors the sum has, of which members, for which advertisements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SurvivorStatement<'a> {
    pub(crate) context: &'a RoundContext,
    pub(crate) advertisements: &'a [u8; 32],
    pub(crate) members: SiteSet,
    pub(crate) survivors: SiteSet,
}

impl SurvivorStatement<'_> {
    fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = b"undertone secure aggregation: survivors".to_vec();
        bytes.extend(self.context.digest());
        bytes.extend(self.advertisements);
        bytes.extend(self.members.to_bits().to_le_bytes());
        bytes.extend(self.survivors.to_bits().to_le_bytes());
        bytes
    }

    pub(crate) fn sign(&self, site: SiteIndex, identity: &SigningKey) -> SurvivorSignature {
        SurvivorSignature { site, signature: identity.sign(&self.signed_bytes()).to_bytes().to_vec() }
    }

    pub(crate) fn verify(&self, roster: &Roster, signature: &SurvivorSignature) -> Result<(), Refusal> {
        let site = signature.site;
        if !self.survivors.contains(site) {
            return Err(Refusal::SignerNotSurvivor { site });
        }
        if is_signed_by(roster, site, &self.signed_bytes(), &signature.signature)? {
            Ok(())
        } else {
            Err(Refusal::SurvivorSignature { site })
        }
    }
}

/// A share of a secret of one site, in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevealedShare {
    /// The site whose secret is shared.
    pub of: SiteIndex,
    /// The values of the polynomials at the place of the revealing site.
    pub share: [u8; 32],
}

/// A site's shares of each member: one kind for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reveal {
    /// The revealing site.
    pub site: SiteIndex,
    /// Shares of the seeds of the survivors, in the order of the sites.
    pub seeds: Vec<RevealedShare>,
    /// Shares of the mask secrets of the other members, in the order of the sites.
    pub keys: Vec<RevealedShare>,
}
