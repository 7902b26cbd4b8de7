use std::collections::BTreeSet;

use super::*;
use crate::message::{AdvertisementList, SurvivorStatement};

const HONEST: [SiteIndex; 3] = [0, 1, 2];
/// The site that works for the server.
const COLLUDING: SiteIndex = 3;

/// Returns the sets of at least three of four sites.
fn groups() -> Vec<SiteSet> {
    (0..16).map(SiteSet::from_bits).filter(|set| set.len() >= 3).collect()
}

/// The number of shares of one site's secrets that the server has.
#[derive(Clone, Copy)]
struct ShareCount {
    seed: usize,
    key: usize,
}

/// A server with the colluding site's key.
struct HostileServer<'a> {
    group: &'a TestGroup,
    list: &'a AdvertisementList,
    sites: [TestSiteRound<'a>; 3],
    signatures: BTreeMap<(u64, SiteIndex), SurvivorSignature>,
    /// The revealing site, the site of the secret, and whether it is the seed.
    shares: BTreeSet<(SiteIndex, SiteIndex, bool)>,
}

impl<'a> HostileServer<'a> {
    fn new(group: &'a TestGroup, list: &'a AdvertisementList) -> Self {
        let sites = HONEST.map(|site| group.enter(usize::from(site), 1));
        Self { group, list, sites, signatures: BTreeMap::new(), shares: BTreeSet::new() }
    }

    /// Shows each honest site a set, and asks for its shares with all signatures on any set.
    fn show(&mut self, sets: [SiteSet; 3]) {
        for ((own, site), set) in HONEST.into_iter().zip(&mut self.sites).zip(sets) {
            self.signatures.extend(site.sign(set).map(|signature| ((set.to_bits(), own), signature)));
        }
        let context = self.group.context(1);
        for set in groups() {
            let mut collected: Vec<SurvivorSignature> = self
                .signatures
                .range((set.to_bits(), 0)..=(set.to_bits(), 63))
                .map(|(_, signed)| signed.clone())
                .collect();
            if set.contains(COLLUDING) {
                let (advertisements, members) = (self.list.digest(), SiteSet::from_bits(15));
                let statement = SurvivorStatement { context: &context, advertisements, members, survivors: set };
                collected.push(statement.sign(COLLUDING, &self.group.identities[usize::from(COLLUDING)]));
            }
            for (own, site) in HONEST.into_iter().zip(&mut self.sites) {
                let Ok(reveal) = site.reveal(&collected) else { continue };
                self.shares.extend(reveal.seeds.iter().map(|share| (own, share.of, true)));
                self.shares.extend(reveal.keys.iter().map(|share| (own, share.of, false)));
            }
        }
    }

    /// Returns the number of shares of a site, with those of the colluding site, which holds one of each.
    fn count(&self, of: SiteIndex) -> ShareCount {
        let count = |is_seed| 1 + self.shares.iter().filter(|share| share.1 == of && share.2 == is_seed).count();
        ShareCount { seed: count(true), key: count(false) }
    }
}

/// Checks, for each choice of sets that a server can show to three honest sites, that it restores at most one secret of
/// each site.
#[test]
fn no_choice_of_sets_gives_both_secrets_of_a_site() {
    let group = TestGroup::new(4, 3, 1);
    let round = TestRound::masked(&group, 1);
    let list = AdvertisementList::verify(&group.roster, &group.context(1), round.list.clone()).unwrap();
    let masked: Vec<_> = group.disks.iter().map(|disk| disk.0.borrow().records.clone()).collect();
    let (mut seeds, mut keys) = (0, 0);
    for one in groups() {
        for two in groups() {
            for three in groups() {
                for (disk, records) in group.disks.iter().zip(&masked) {
                    disk.0.borrow_mut().records.clone_from(records);
                }
                let mut server = HostileServer::new(&group, &list);
                server.show([one, two, three]);
                // Then every other set: a site that signed a second one would reveal for both.
                for other in groups() {
                    server.show([other; 3]);
                }
                for count in HONEST.map(|site| server.count(site)) {
                    assert!(count.seed < 3 || count.key < 3, "{one} {two} {three}: {} {}", count.seed, count.key);
                    seeds += usize::from(count.seed >= 3);
                    keys += usize::from(count.key >= 3);
                }
            }
        }
    }
    // Attacks that do restore one secret, so that the bound is not empty.
    assert!(seeds > 0 && keys > 0, "{seeds} {keys}");
}
