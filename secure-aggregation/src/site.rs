//! The site's side of a round.
//!
//! Each step checks the server's messages against the roster and the record, stores the record, and returns the site's
//! message. A repeated step with the same input returns the same bytes; with other input it is refused. The order is
//! [`SiteRound::enter`], [`SiteRound::advertisement`], [`SiteRound::share`], [`SiteRound::mask`], [`SiteRound::sign`],
//! [`SiteRound::reveal`], [`SiteRound::close`].
//!
//! The caller charges its ledger between [`SiteRound::mask`] and the sending of the masked vector: the vector is a
//! release of the site's data, whether or not the server ever opens the sum.

use ed25519_dalek::SigningKey;
use rand_chacha::rand_core::CryptoRng;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::agreement::{self, OwnShares, RoundSecrets};
use crate::journal::{RoundJournal, RoundRecord};
use crate::mask::{self, MaskSign};
use crate::message::{
    Advertisement, AdvertisementList, MaskedVector, Reveal, RevealedShare, SealedShares, SurvivorSignature,
    SurvivorStatement,
};
use crate::refusal::{Refusal, SiteError};
use crate::roster::AcceptedRoster;
use crate::round::RoundContext;
use crate::seal::{self, HeldShares};
use crate::sharing::Secret;
use crate::site_set::{SiteIndex, SiteSet};

/// A round at one site.
pub struct SiteRound<'a, J: RoundJournal> {
    accepted: &'a AcceptedRoster,
    identity: &'a SigningKey,
    context: RoundContext,
    journal: J,
    record: RoundRecord,
    /// The advertisements of the record, verified.
    list: Option<AdvertisementList>,
    secrets: RoundSecrets,
}

/// The result of a step.
type Step<T, J> = Result<T, SiteError<<J as RoundJournal>::Error>>;

impl<'a, J: RoundJournal> SiteRound<'a, J> {
    /// Begins a round, or continues the one in the journal. `rng` draws the secret of a round that begins.
    ///
    /// # Errors
    /// [`Refusal::RoundClosed`] when the round has ended here, [`Refusal::DifferentRound`] when the journal has it in
    /// another form, [`Refusal::Identity`] when the identity key is not the site's, or an error of the journal.
    pub fn enter(
        accepted: &'a AcceptedRoster,
        identity: &'a SigningKey,
        context: RoundContext,
        mut journal: J,
        rng: &mut impl CryptoRng,
    ) -> Step<Self, J> {
        let site = accepted.index();
        if accepted.roster().key(site) != Some(&identity.verifying_key()) {
            return Err(Refusal::Identity { site }.into());
        }
        let stored = journal.load(context.slot()).map_err(SiteError::Journal)?;
        let record = if let Some(record) = stored {
            record
        } else {
            let mut secret = Zeroizing::new([0; 32]);
            rng.fill_bytes(secret.as_mut());
            let record = RoundRecord::new(*context.digest(), *secret);
            journal.store(context.slot(), &record).map_err(SiteError::Journal)?;
            record
        };
        let Some(secret) = &record.secret else { return Err(Refusal::RoundClosed.into()) };
        if record.context != *context.digest() {
            return Err(Refusal::DifferentRound.into());
        }
        let list = if record.advertisements.is_empty() {
            None
        } else {
            let list = AdvertisementList::verify(accepted.roster(), &context, record.advertisements.clone());
            Some(list.map_err(|_| Refusal::DamagedRecord)?)
        };
        let secrets = RoundSecrets::derive(&context, secret);
        Ok(Self { accepted, identity, context, journal, record, list, secrets })
    }

    /// Returns the record of the round.
    pub const fn record(&self) -> &RoundRecord {
        &self.record
    }

    /// Returns the site's keys for the round.
    pub fn advertisement(&self) -> Advertisement {
        Advertisement::new(&self.context, self.accepted.index(), &self.secrets, self.identity)
    }

    /// Accepts the list of advertisements, and returns the site's shares for each other site of it.
    ///
    /// # Errors
    /// [`Refusal`] when the list is too small, false, lacks this site's own advertisement, or is another one than
    /// before; an error of the journal.
    pub fn share(&mut self, advertisements: Vec<Advertisement>) -> Step<Vec<SealedShares>, J> {
        let list = AdvertisementList::verify(self.accepted.roster(), &self.context, advertisements)?;
        let own = self.accepted.index();
        if list.get(own) != Some(&self.advertisement()) {
            return Err(Refusal::OwnAdvertisement.into());
        }
        if self.list.as_ref().is_some_and(|former| former.digest() != list.digest()) {
            return Err(Refusal::SecondAdvertisements.into());
        }
        let shares = self.own_shares();
        let mut sealed = Vec::with_capacity(list.as_slice().len());
        for peer in list.sites().iter().filter(|peer| *peer != own) {
            let key = self.channel_key(&list, peer, [own, peer])?;
            // Refuses a mask key of small order before anything is shared.
            self.mask_key(&list, peer)?;
            let held = shares.for_site(peer).ok_or(Refusal::UnknownSite { site: peer })?;
            let ciphertext = seal::seal(&key, &held);
            sealed.push(SealedShares { from: own, to: peer, ciphertext });
        }
        if self.list.is_none() {
            let mut next = self.record.clone();
            next.advertisements = list.as_slice().to_vec();
            self.store(next)?;
            self.list = Some(list);
        }
        Ok(sealed)
    }

    /// Masks the site's vector, which has its noise already. `shares` are those of the other members, sealed for this
    /// site. The caller charges its ledger before the masked vector leaves.
    ///
    /// # Errors
    /// [`Refusal`] when the members are no group, shares do not open, or vector or shares are others than before; an
    /// error of the journal.
    pub fn mask(&mut self, mut shares: Vec<SealedShares>, vector: &[i32]) -> Step<MaskedVector, J> {
        if vector.len() != self.context.length() {
            return Err(Refusal::Length { found: vector.len(), expected: self.context.length() }.into());
        }
        let list = self.list_for("mask")?;
        shares.sort_by_key(|sealed| sealed.from);
        let members = self.check_shares(list, &shares)?;
        self.confirm_shares(&shares)?;
        let own = self.accepted.index();
        let modulus = self.context.modulus();
        let mut masked = mask::to_unsigned(vector);
        mask::apply(self.secrets.seed(), modulus, MaskSign::Plus, &mut masked);
        for peer in members.iter().filter(|peer| *peer != own) {
            mask::apply(&*self.mask_key(list, peer)?, modulus, MaskSign::between(own, peer), &mut masked);
        }
        let bytes = modulus.pack(&masked);
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        match self.record.vector {
            Some(former) if former != digest => return Err(Refusal::SecondVector.into()),
            Some(_) => {}
            None => {
                let mut next = self.record.clone();
                next.shares = shares;
                next.vector = Some(digest);
                self.store(next)?;
            }
        }
        Ok(MaskedVector { site: own, members, bytes })
    }

    /// Checks that `shares`, in the order of the sites, are those with which this site has masked its vector. Any shares
    /// pass before that.
    ///
    /// # Errors
    /// [`Refusal::SecondShares`] when they are others.
    pub fn confirm_shares(&self, shares: &[SealedShares]) -> Result<(), Refusal> {
        if self.record.vector.is_some() && self.record.shares != shares {
            return Err(Refusal::SecondShares);
        }
        Ok(())
    }

    /// Signs the set of survivors.
    ///
    /// # Errors
    /// [`Refusal`] when the set is too small, lacks this site, has a site without masks, or is another one than before;
    /// an error of the journal.
    pub fn sign(&mut self, survivors: SiteSet) -> Step<SurvivorSignature, J> {
        let advertisements = *self.list_for("sign")?.digest();
        let members = self.members_for("sign")?;
        if let Some(signed) = self.record.survivors.filter(|signed| *signed != survivors) {
            return Err(Refusal::SecondSurvivors { signed, shown: survivors }.into());
        }
        if !survivors.is_subset(members) {
            return Err(Refusal::NotMembers { survivors, members }.into());
        }
        if !survivors.contains(self.accepted.index()) {
            return Err(Refusal::NotSurvivor { survivors }.into());
        }
        self.check_group(survivors.len())?;
        if self.record.survivors.is_none() {
            let mut next = self.record.clone();
            next.survivors = Some(survivors);
            self.store(next)?;
        }
        let statement = self.statement(&advertisements, members, survivors);
        Ok(statement.sign(self.accepted.index(), self.identity))
    }

    /// Reveals one share of each member, after the signatures of enough survivors on the set that this site signed.
    ///
    /// # Errors
    /// [`Refusal`] when this site has signed no set, or a signature is missing, false, or on another set; an error of
    /// the journal.
    pub fn reveal(&mut self, signatures: &[SurvivorSignature]) -> Step<Reveal, J> {
        let list = self.list_for("reveal")?;
        let members = self.members_for("reveal")?;
        let Some(survivors) = self.record.survivors else {
            return Err(Refusal::OutOfOrder { step: "reveal", needs: "sign" }.into());
        };
        let statement = self.statement(list.digest(), members, survivors);
        let mut signers = SiteSet::default();
        for signature in signatures {
            statement.verify(self.accepted.roster(), signature)?;
            if !signers.insert(signature.site) {
                return Err(Refusal::SiteTwice { site: signature.site }.into());
            }
        }
        if !self.accepted.roster().is_group(signers.len()) {
            let least = self.accepted.roster().terms().smallest_group;
            return Err(Refusal::TooFewSignatures { found: signers.len(), least }.into());
        }
        let own = self.accepted.index();
        let mut reveal = Reveal { site: own, seeds: Vec::new(), keys: Vec::new() };
        for of in members.iter() {
            let held = self.held_shares(list, of)?;
            if survivors.contains(of) {
                reveal.seeds.push(RevealedShare { of, share: *held.seed });
            } else {
                reveal.keys.push(RevealedShare { of, share: *held.key });
            }
        }
        if !self.record.revealed {
            let mut next = self.record.clone();
            next.revealed = true;
            self.store(next)?;
        }
        Ok(reveal)
    }

    /// Ends the round: the secrets are erased from the record, which stays as the mark that the round is over.
    ///
    /// # Errors
    /// An error of the journal.
    pub fn close(mut self) -> Step<(), J> {
        let mut next = self.record.clone();
        next.secret = None;
        next.advertisements.clear();
        next.shares.clear();
        self.store(next)
    }

    fn store(&mut self, next: RoundRecord) -> Step<(), J> {
        self.journal.store(self.context.slot(), &next).map_err(SiteError::Journal)?;
        self.record = next;
        Ok(())
    }

    fn list_for(&self, step: &'static str) -> Result<&AdvertisementList, Refusal> {
        self.list.as_ref().ok_or(Refusal::OutOfOrder { step, needs: "share" })
    }

    /// Returns the sites with pairwise masks: this one, and those whose shares it has.
    fn members_for(&self, step: &'static str) -> Result<SiteSet, Refusal> {
        if self.record.vector.is_none() {
            return Err(Refusal::OutOfOrder { step, needs: "mask" });
        }
        let others = self.record.shares.iter().map(|sealed| sealed.from);
        Ok(others.chain([self.accepted.index()]).collect())
    }

    fn check_group(&self, found: usize) -> Result<(), Refusal> {
        if self.accepted.roster().is_group(found) {
            return Ok(());
        }
        Err(Refusal::GroupTooSmall { found, least: self.accepted.roster().terms().smallest_group })
    }

    /// Checks that the sealed shares are for this site and open, and returns the members of the round.
    fn check_shares(&self, list: &AdvertisementList, shares: &[SealedShares]) -> Result<SiteSet, Refusal> {
        let own = self.accepted.index();
        let mut members = SiteSet::from_iter([own]);
        for sealed in shares {
            let SealedShares { from, to, .. } = *sealed;
            if to != own || from == own || list.get(from).is_none() {
                return Err(Refusal::MisdirectedShares { from, to });
            }
            if !members.insert(from) {
                return Err(Refusal::SiteTwice { site: from });
            }
            self.open(list, sealed)?;
        }
        self.check_group(members.len())?;
        Ok(members)
    }

    fn own_shares(&self) -> OwnShares {
        let roster = self.accepted.roster();
        self.secrets.split(roster.terms().smallest_group, roster.sites())
    }

    /// Returns this site's shares of a member's secrets.
    fn held_shares(&self, list: &AdvertisementList, of: SiteIndex) -> Result<HeldShares, Refusal> {
        if of == self.accepted.index() {
            return self.own_shares().for_site(of).ok_or(Refusal::UnknownSite { site: of });
        }
        let sealed = self.record.shares.iter().find(|sealed| sealed.from == of);
        self.open(list, sealed.ok_or(Refusal::DamagedRecord)?)
    }

    fn open(&self, list: &AdvertisementList, sealed: &SealedShares) -> Result<HeldShares, Refusal> {
        let key = self.channel_key(list, sealed.from, [sealed.from, sealed.to])?;
        seal::open(&key, &sealed.ciphertext).ok_or(Refusal::UnopenedShares { from: sealed.from })
    }

    fn mask_key(&self, list: &AdvertisementList, peer: SiteIndex) -> Result<Secret, Refusal> {
        let public = &list.get(peer).ok_or(Refusal::UnknownSite { site: peer })?.mask_key;
        let pair = [self.accepted.index(), peer];
        let key = agreement::mask_key(&self.context, self.secrets.mask(), public, pair);
        key.ok_or(Refusal::WeakKey { site: peer })
    }

    /// Returns the key of the shares that go in one direction between this site and `peer`.
    fn channel_key(&self, list: &AdvertisementList, peer: SiteIndex, way: [SiteIndex; 2]) -> Result<Secret, Refusal> {
        let public = &list.get(peer).ok_or(Refusal::UnknownSite { site: peer })?.channel_key;
        let key = agreement::channel_key(&self.context, self.secrets.channel(), public, way, list.digest());
        key.ok_or(Refusal::WeakKey { site: peer })
    }

    const fn statement<'s>(
        &'s self,
        advertisements: &'s [u8; 32],
        members: SiteSet,
        survivors: SiteSet,
    ) -> SurvivorStatement<'s> {
        SurvivorStatement { context: &self.context, advertisements, members, survivors }
    }
}
