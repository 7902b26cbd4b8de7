//! Whole rounds in one process: honest ones with every set of survivors, hostile ones, crashes, and fixed vectors.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod adversary;
mod crash;
mod hostile_server;
mod hostile_site;
mod sums;
mod vectors;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ed25519_dalek::SigningKey;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::journal::{RoundJournal, RoundRecord};
use crate::message::{Advertisement, MaskedVector, SealedShares, SurvivorSignature};
use crate::modulus::Modulus;
use crate::refusal::{Refusal, SiteError};
use crate::roster::{AcceptedRoster, GroupPolicy, GroupTerms, Roster};
use crate::round::RoundContext;
use crate::server::{AdvertisementPhase, ServerError};
use crate::site::SiteRound;
use crate::site_set::{SiteIndex, SiteSet};

/// A simulated fault of a site's disk.
#[derive(Debug, thiserror::Error)]
#[error("the disk failed")]
struct DiskError;

#[derive(Clone, Copy, PartialEq, Eq)]
enum DiskFault {
    BeforeWriting,
    AfterWriting,
}

#[derive(Default)]
struct DiskContent {
    /// Records in their stored form.
    records: BTreeMap<[u8; 32], String>,
    stores: u32,
    /// The store that fails once, from 0.
    fault: Option<(u32, DiskFault)>,
}

/// A site's disk, which survives its process.
#[derive(Clone, Default)]
struct TestDisk(Rc<RefCell<DiskContent>>);

impl RoundJournal for TestDisk {
    type Error = DiskError;

    fn load(&mut self, slot: &[u8; 32]) -> Result<Option<RoundRecord>, DiskError> {
        let content = self.0.borrow();
        content.records.get(slot).map(|text| serde_json::from_str(text).map_err(|_| DiskError)).transpose()
    }

    fn store(&mut self, slot: &[u8; 32], record: &RoundRecord) -> Result<(), DiskError> {
        let mut content = self.0.borrow_mut();
        let number = content.stores;
        content.stores += 1;
        let fault = content.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
        if fault != Some(DiskFault::BeforeWriting) {
            content.records.insert(*slot, serde_json::to_string(record).map_err(|_| DiskError)?);
        }
        if fault.is_some() { Err(DiskError) } else { Ok(()) }
    }
}

type TestSiteRound<'a> = SiteRound<'a, TestDisk>;

/// Sites with keys, disks and one roster that all accept.
struct TestGroup {
    identities: Vec<SigningKey>,
    roster: Roster,
    accepted: Vec<AcceptedRoster>,
    disks: Vec<TestDisk>,
    modulus: Modulus,
    length: u64,
}

impl TestGroup {
    fn new(sites: usize, smallest_group: u8, colluding: u8) -> Self {
        let identities: Vec<SigningKey> =
            (0..sites).map(|site| SigningKey::from_bytes(&[site as u8 + 1; 32])).collect();
        Self::with([3; 32], identities, GroupTerms { smallest_group, colluding }, Modulus::new(13).unwrap(), 5)
    }

    fn with(manifest: [u8; 32], identities: Vec<SigningKey>, terms: GroupTerms, modulus: Modulus, length: u64) -> Self {
        let keys: Vec<[u8; 32]> = identities.iter().map(|identity| identity.verifying_key().to_bytes()).collect();
        let roster = Roster::new(manifest, &keys, terms).unwrap();
        let policy = GroupPolicy { least_honest: 1 };
        let accept = |identity: &SigningKey| roster.clone().accept(&identity.verifying_key(), policy, |_| true);
        let accepted = identities.iter().map(|identity| accept(identity).unwrap()).collect();
        let disks = identities.iter().map(|_| TestDisk::default()).collect();
        Self { identities, roster, accepted, disks, modulus, length }
    }

    fn context(&self, number: u32) -> RoundContext {
        RoundContext::new(&self.roster, "private", number, self.length, self.modulus).unwrap()
    }

    fn try_enter(&self, site: usize, number: u32) -> Result<TestSiteRound<'_>, SiteError<DiskError>> {
        let disk = self.disks[site].clone();
        // Each process draws another secret: what a site repeats, it has from its disk.
        let stores = u64::from(disk.0.borrow().stores);
        let mut rng = ChaCha20Rng::seed_from_u64(1000 * u64::from(number) + 50 * stores + site as u64);
        SiteRound::enter(&self.accepted[site], &self.identities[site], self.context(number), disk, &mut rng)
    }

    fn enter(&self, site: usize, number: u32) -> TestSiteRound<'_> {
        self.try_enter(site, number).unwrap()
    }

    fn sites(&self) -> std::ops::Range<usize> {
        0..self.identities.len()
    }

    /// Returns a vector of which the group's sums do not wrap around.
    fn vector(&self, site: usize) -> Vec<i32> {
        let mut rng = ChaCha20Rng::seed_from_u64(900 + site as u64);
        let bound = (1_u32 << (self.modulus.bits() - 1)) / self.identities.len() as u32;
        (0..self.length).map(|_| (rng.next_u32() % (2 * bound)).cast_signed() - bound.cast_signed()).collect()
    }

    fn sum(&self, survivors: SiteSet) -> Vec<i32> {
        let mut sum = vec![0; self.length as usize];
        for site in survivors.iter() {
            sum.iter_mut().zip(self.vector(usize::from(site))).for_each(|(total, value)| *total += value);
        }
        sum
    }
}

/// The last step that a site takes in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LastStep {
    Nothing,
    Advertise,
    Share,
    Mask,
    Sign,
    Reveal,
}

/// Plays a round in which `last` tells how far each site gets.
fn play(group: &TestGroup, number: u32, last: impl Fn(usize) -> LastStep) -> Result<(SiteSet, Vec<i32>), ServerError> {
    let mut sites: Vec<TestSiteRound<'_>> = group.sites().map(|site| group.enter(site, number)).collect();
    let reach = |step: LastStep| group.sites().filter(|site| last(*site) >= step).collect::<Vec<_>>();
    let mut phase = AdvertisementPhase::new(&group.roster, group.context(number));
    for site in reach(LastStep::Advertise) {
        phase.receive(sites[site].advertisement())?;
    }
    let mut phase = phase.close()?;
    let list = phase.advertisements().as_slice().to_vec();
    for site in reach(LastStep::Share) {
        phase.receive(site as SiteIndex, sites[site].share(list.clone()).unwrap())?;
    }
    let mut phase = phase.close()?;
    for site in reach(LastStep::Mask) {
        phase.receive(&sites[site].mask(phase.shares_for(site as SiteIndex), &group.vector(site)).unwrap())?;
    }
    let mut phase = phase.close()?;
    for site in reach(LastStep::Sign) {
        phase.receive(sites[site].sign(phase.survivors()).unwrap())?;
    }
    let survivors = phase.survivors();
    let mut phase = phase.close()?;
    for site in reach(LastStep::Reveal) {
        phase.receive(sites[site].reveal(phase.signatures()).unwrap())?;
    }
    let sum = phase.open()?;
    for site in sites {
        site.close().unwrap();
    }
    Ok((survivors, sum))
}

/// The messages of a round up to the masked vectors.
struct TestRound<'a> {
    group: &'a TestGroup,
    sites: Vec<TestSiteRound<'a>>,
    list: Vec<Advertisement>,
    shares: Vec<SealedShares>,
}

impl<'a> TestRound<'a> {
    /// Plays the round until all sites have shared.
    fn shared(group: &'a TestGroup, number: u32) -> Self {
        let mut sites: Vec<_> = group.sites().map(|site| group.enter(site, number)).collect();
        let list: Vec<Advertisement> = sites.iter().map(SiteRound::advertisement).collect();
        let shares = sites.iter_mut().flat_map(|site| site.share(list.clone()).unwrap()).collect();
        Self { group, sites, list, shares }
    }

    /// Plays the round until all sites have masked.
    fn masked(group: &'a TestGroup, number: u32) -> Self {
        let mut round = Self::shared(group, number);
        group.sites().for_each(|site| drop(round.mask(site)));
        round
    }

    fn shares_for(&self, site: usize) -> Vec<SealedShares> {
        self.shares.iter().filter(|sealed| usize::from(sealed.to) == site).cloned().collect()
    }

    fn mask(&mut self, site: usize) -> MaskedVector {
        let shares = self.shares_for(site);
        self.sites[site].mask(shares, &self.group.vector(site)).unwrap()
    }

    fn sign(&mut self, survivors: SiteSet) -> Vec<SurvivorSignature> {
        survivors.iter().map(|site| self.sites[usize::from(site)].sign(survivors).unwrap()).collect()
    }
}

/// Returns the reason of a refused step.
fn refusal<T>(step: Result<T, SiteError<DiskError>>) -> Option<Refusal> {
    match step {
        Err(SiteError::Refused(reason)) => Some(reason),
        _ => None,
    }
}

fn set(sites: impl IntoIterator<Item = SiteIndex>) -> SiteSet {
    sites.into_iter().collect()
}
