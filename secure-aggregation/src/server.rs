//! The server's side of a round. Each phase takes the sites' messages in any order, and closing it makes the next one.
//!
//! A repeated message is accepted when it is the same, and refused when it is another one. The caller decides when a
//! phase closes: by a deadline, or when each expected site has answered. A round that is no longer a group fails, and
//! no vector of it is ever opened.

mod opening;

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::message::{
    Advertisement, AdvertisementList, MaskedVector, Reveal, SealedShares, SurvivorSignature, SurvivorStatement,
};
use crate::modulus::ModulusError;
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::round::RoundContext;
use crate::site_set::{SiteIndex, SiteSet};

/// Reasons why the server does not accept a message, or cannot open a sum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The message is false, or too few sites are left.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The bytes are not a vector of the round.
    #[error("the vector of site {site}: {reason}")]
    Vector {
        /// The site.
        site: SiteIndex,
        /// What is wrong with the bytes.
        reason: ModulusError,
    },
    /// The site does not take part in this phase.
    #[error("site {site} does not take part in this phase of the round")]
    NotExpected {
        /// The site.
        site: SiteIndex,
    },
    /// The site has sent another message before.
    #[error("site {site} has sent a different message of this kind before")]
    SecondMessage {
        /// The site.
        site: SiteIndex,
    },
    /// The message does not have exactly the expected parts.
    #[error("the message of site {site} is for other sites than the round has")]
    WrongSites {
        /// The site.
        site: SiteIndex,
    },
    /// The revealed shares restore another secret than the site has committed to. The site shared false secrets, or a
    /// revealing site changed its share.
    #[error("the shares of site {site} do not restore what it has committed to: the sum stays closed")]
    FalseShares {
        /// The site whose secret cannot be restored.
        site: SiteIndex,
    },
}

/// Accepts a message once, and again if it is the same.
fn keep<M: PartialEq>(messages: &mut BTreeMap<SiteIndex, M>, site: SiteIndex, message: M) -> Result<(), ServerError> {
    match messages.get(&site) {
        Some(former) if *former != message => Err(ServerError::SecondMessage { site }),
        Some(_) => Ok(()),
        None => {
            messages.insert(site, message);
            Ok(())
        }
    }
}

fn check_group(roster: &Roster, found: usize) -> Result<(), ServerError> {
    if roster.is_group(found) {
        return Ok(());
    }
    Err(Refusal::GroupTooSmall { found, least: roster.terms().smallest_group }.into())
}

/// Collects advertisements.
pub struct AdvertisementPhase<'a> {
    roster: &'a Roster,
    context: RoundContext,
    messages: BTreeMap<SiteIndex, Advertisement>,
}

impl<'a> AdvertisementPhase<'a> {
    /// Begins a round.
    pub const fn new(roster: &'a Roster, context: RoundContext) -> Self {
        Self { roster, context, messages: BTreeMap::new() }
    }

    /// Takes a site's advertisement.
    ///
    /// # Errors
    /// [`ServerError`] when it is not signed for this round, or the site's second one.
    pub fn receive(&mut self, advertisement: Advertisement) -> Result<(), ServerError> {
        advertisement.verify(self.roster, &self.context)?;
        keep(&mut self.messages, advertisement.site, advertisement)
    }

    /// Returns the number of sites that have advertised.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Closes the list of advertisements.
    ///
    /// # Errors
    /// [`Refusal::GroupTooSmall`] when too few sites have advertised.
    pub fn close(self) -> Result<SharePhase<'a>, ServerError> {
        let messages = self.messages.into_values().collect();
        let list = AdvertisementList::verify(self.roster, &self.context, messages)?;
        Ok(SharePhase { roster: self.roster, context: self.context, list, messages: BTreeMap::new() })
    }
}

/// Sends the list of advertisements to its sites, and collects their shares.
pub struct SharePhase<'a> {
    roster: &'a Roster,
    context: RoundContext,
    list: AdvertisementList,
    messages: BTreeMap<SiteIndex, Vec<SealedShares>>,
}

impl<'a> SharePhase<'a> {
    /// Returns the list for the sites.
    pub const fn advertisements(&self) -> &AdvertisementList {
        &self.list
    }

    /// Takes the shares of a site for all others of the list.
    ///
    /// # Errors
    /// [`ServerError`] when the site is not in the list, or the shares are not one for each other site of it.
    pub fn receive(&mut self, site: SiteIndex, shares: Vec<SealedShares>) -> Result<(), ServerError> {
        if !self.list.sites().contains(site) {
            return Err(ServerError::NotExpected { site });
        }
        let expected = self.list.sites().iter().filter(|peer| *peer != site);
        if !shares.iter().all(|sealed| sealed.from == site) || !expected.eq(shares.iter().map(|sealed| sealed.to)) {
            return Err(ServerError::WrongSites { site });
        }
        keep(&mut self.messages, site, shares)
    }

    /// Returns the number of sites that have shared.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Closes the set of members: the sites that have shared.
    ///
    /// # Errors
    /// [`Refusal::GroupTooSmall`] when too few sites have shared.
    pub fn close(self) -> Result<MaskPhase<'a>, ServerError> {
        check_group(self.roster, self.messages.len())?;
        let Self { roster, context, list, messages } = self;
        Ok(MaskPhase { roster, context, list, shares: messages, survivors: BTreeMap::new(), sum: Vec::new() })
    }
}

/// Sends each member its shares, and adds the masked vectors.
pub struct MaskPhase<'a> {
    roster: &'a Roster,
    context: RoundContext,
    list: AdvertisementList,
    shares: BTreeMap<SiteIndex, Vec<SealedShares>>,
    /// The digest of each accepted vector.
    survivors: BTreeMap<SiteIndex, [u8; 32]>,
    /// Empty before the first vector that is added here.
    sum: Vec<u32>,
}

impl<'a> MaskPhase<'a> {
    /// Returns the members.
    pub fn members(&self) -> SiteSet {
        self.shares.keys().copied().collect()
    }

    /// Returns the shares for a member.
    pub fn shares_for(&self, site: SiteIndex) -> Vec<SealedShares> {
        self.shares.values().flatten().filter(|sealed| sealed.to == site).cloned().collect()
    }

    /// Adds a member's masked vector.
    ///
    /// # Errors
    /// [`ServerError`] when the site is no member, its members or bytes are not those of the round, or it has sent
    /// another vector.
    pub fn receive(&mut self, vector: &MaskedVector) -> Result<(), ServerError> {
        let site = vector.site;
        if self.shares.contains_key(&site) && vector.members != self.members() {
            return Err(ServerError::WrongSites { site });
        }
        let digest = Sha256::digest(&vector.bytes).into();
        let is_first = !self.survivors.contains_key(&site);
        self.receive_stored(site, digest)?;
        self.sum.resize(self.context.length(), 0);
        if is_first && let Err(reason) = self.context.modulus().add_packed(&vector.bytes, &mut self.sum) {
            self.survivors.remove(&site);
            return Err(ServerError::Vector { site, reason });
        }
        Ok(())
    }

    /// Takes the SHA-256 digest of a member's masked vector that the caller stores. The caller adds such vectors itself, and
    /// opens their sum with [`RevealPhase::open_sum`].
    ///
    /// # Errors
    /// [`ServerError`] when the site is no member, or has sent another vector.
    pub fn receive_stored(&mut self, site: SiteIndex, digest: [u8; 32]) -> Result<(), ServerError> {
        if !self.shares.contains_key(&site) {
            return Err(ServerError::NotExpected { site });
        }
        keep(&mut self.survivors, site, digest)
    }

    /// Returns the number of vectors in the sum.
    pub fn count(&self) -> usize {
        self.survivors.len()
    }

    /// Closes the set of survivors: the sites whose vectors arrived.
    ///
    /// # Errors
    /// [`Refusal::GroupTooSmall`] when too few vectors arrived.
    pub fn close(self) -> Result<SignaturePhase<'a>, ServerError> {
        check_group(self.roster, self.survivors.len())?;
        let members = self.members();
        let survivors = self.survivors.keys().copied().collect();
        let Self { roster, context, list, sum, .. } = self;
        Ok(SignaturePhase {
            masked: MaskedSum { roster, context, list, members, survivors, sum },
            messages: BTreeMap::new(),
        })
    }
}

/// The sum of the survivors' vectors under the remaining masks.
struct MaskedSum<'a> {
    roster: &'a Roster,
    context: RoundContext,
    list: AdvertisementList,
    members: SiteSet,
    survivors: SiteSet,
    sum: Vec<u32>,
}

/// Sends the set of survivors to them, and collects their signatures.
pub struct SignaturePhase<'a> {
    masked: MaskedSum<'a>,
    messages: BTreeMap<SiteIndex, SurvivorSignature>,
}

impl<'a> SignaturePhase<'a> {
    /// Returns the survivors.
    pub const fn survivors(&self) -> SiteSet {
        self.masked.survivors
    }

    /// Takes a survivor's signature.
    ///
    /// # Errors
    /// [`ServerError`] when it is not a survivor's signature on this set.
    pub fn receive(&mut self, signature: SurvivorSignature) -> Result<(), ServerError> {
        let MaskedSum { roster, context, list, members, survivors, .. } = &self.masked;
        let statement =
            SurvivorStatement { context, advertisements: list.digest(), members: *members, survivors: *survivors };
        statement.verify(roster, &signature)?;
        keep(&mut self.messages, signature.site, signature)
    }

    /// Returns the number of signatures.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Closes the signatures.
    ///
    /// # Errors
    /// [`Refusal::TooFewSignatures`] when they are fewer than the smallest group.
    pub fn close(self) -> Result<RevealPhase<'a>, ServerError> {
        if !self.masked.roster.is_group(self.messages.len()) {
            let least = self.masked.roster.terms().smallest_group;
            return Err(Refusal::TooFewSignatures { found: self.messages.len(), least }.into());
        }
        let signatures = self.messages.into_values().collect();
        Ok(RevealPhase { masked: self.masked, signatures, messages: BTreeMap::new() })
    }
}

/// Sends the signatures to the survivors, collects their shares, and opens the sum.
pub struct RevealPhase<'a> {
    masked: MaskedSum<'a>,
    signatures: Vec<SurvivorSignature>,
    messages: BTreeMap<SiteIndex, Reveal>,
}

impl RevealPhase<'_> {
    /// Returns the signatures for the survivors.
    pub fn signatures(&self) -> &[SurvivorSignature] {
        &self.signatures
    }

    /// Takes a survivor's shares.
    ///
    /// # Errors
    /// [`ServerError`] when the site is no survivor, or its shares are not one of the right kind for each member.
    pub fn receive(&mut self, reveal: Reveal) -> Result<(), ServerError> {
        let site = reveal.site;
        let MaskedSum { members, survivors, .. } = &self.masked;
        if !survivors.contains(site) {
            return Err(ServerError::NotExpected { site });
        }
        let dropped = members.difference(*survivors);
        if !survivors.iter().eq(reveal.seeds.iter().map(|share| share.of))
            || !dropped.iter().eq(reveal.keys.iter().map(|share| share.of))
        {
            return Err(ServerError::WrongSites { site });
        }
        keep(&mut self.messages, site, reveal)
    }

    /// Returns the number of sites that have revealed their shares.
    pub fn count(&self) -> usize {
        self.messages.len()
    }
}
