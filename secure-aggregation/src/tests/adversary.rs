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
#[derive(Clone, Copy, Default)]
struct ShareCount {
    seed: usize,
    key: usize,
}

/// Plays a server that shows each honest site a set of its own, has the colluding site sign each of them, and collects
/// what the sites reveal.
fn attack(group: &TestGroup, list: &AdvertisementList, shown: [SiteSet; 3]) -> [ShareCount; 3] {
    let mut sites = HONEST.map(|site| group.enter(usize::from(site), 1));
    let mut signatures: Vec<(SiteSet, SurvivorSignature)> = Vec::new();
    for (site, set) in sites.iter_mut().zip(shown) {
        signatures.extend(site.sign(set).map(|signature| (set, signature)));
    }
    // The colluding site holds one share of both secrets of each honest one.
    let mut counts = [ShareCount { seed: 1, key: 1 }; 3];
    let context = group.context(1);
    for set in groups() {
        let members = SiteSet::from_bits(15);
        let statement = SurvivorStatement { context: &context, advertisements: list.digest(), members, survivors: set };
        let signed = signatures.iter().filter(|(signed, _)| *signed == set).map(|(_, signature)| signature.clone());
        let mut collected: Vec<SurvivorSignature> = signed.collect();
        if set.contains(COLLUDING) {
            collected.push(statement.sign(COLLUDING, &group.identities[usize::from(COLLUDING)]));
        }
        for site in &mut sites {
            let Ok(reveal) = site.reveal(&collected) else { continue };
            let place = |of: SiteIndex| HONEST.iter().position(|honest| *honest == of);
            reveal.seeds.iter().filter_map(|share| place(share.of)).for_each(|of| counts[of].seed += 1);
            reveal.keys.iter().filter_map(|share| place(share.of)).for_each(|of| counts[of].key += 1);
        }
    }
    counts
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
                for count in attack(&group, &list, [one, two, three]) {
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
