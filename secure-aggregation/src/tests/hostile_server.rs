use super::*;

const ALL: [SiteIndex; 4] = [0, 1, 2, 3];

fn group() -> TestGroup {
    TestGroup::new(4, 3, 0)
}

#[test]
fn shrunk_group_is_refused_at_each_step() {
    let group = group();
    let too_small = |found| Some(Refusal::GroupTooSmall { found, least: 3 });
    let mut round = TestRound::shared(&group, 1);
    let fresh: Vec<_> = (0..2).map(|site| group.enter(site, 2).advertisement()).collect();
    assert_eq!(refusal(group.enter(0, 2).share(fresh)), too_small(2));
    let one = round.shares_for(0)[..1].to_vec();
    assert_eq!(refusal(round.sites[0].mask(one, &group.vector(0))), too_small(2));
    round.mask(0);
    assert_eq!(refusal(round.sites[0].sign(set([0, 1]))), too_small(2));
    let signatures = TestRound::masked(&group, 3).sign(set([0, 1, 2]));
    let mut third = group.enter(0, 3);
    let too_few = Some(Refusal::TooFewSignatures { found: 2, least: 3 });
    assert_eq!(refusal(third.reveal(&signatures[..2])), too_few);
    assert!(third.reveal(&signatures).is_ok());
}

#[test]
fn swapped_keys_are_refused() {
    let group = group();
    let list: Vec<_> = (0..4).map(|site| group.enter(site, 1).advertisement()).collect();
    let signature = |site| Some(Refusal::AdvertisementSignature { site });
    let share = |list: Vec<Advertisement>| refusal(group.enter(0, 1).share(list));
    let mut other_mask = list.clone();
    other_mask[2].mask_key = list[1].mask_key;
    assert_eq!(share(other_mask), signature(2));
    let mut other_channel = list.clone();
    other_channel[2].channel_key = list[1].channel_key;
    assert_eq!(share(other_channel), signature(2));
    let mut exchanged = list.clone();
    exchanged[1].site = 2;
    exchanged[2].site = 1;
    assert_eq!(share(exchanged), signature(1));
    let mut unknown = list.clone();
    unknown[3].site = 9;
    assert_eq!(share(unknown), Some(Refusal::UnknownSite { site: 9 }));
    let mut twice = list.clone();
    twice[3] = list[2].clone();
    assert_eq!(share(twice), Some(Refusal::SiteTwice { site: 2 }));
    assert_eq!(share(list[1..].to_vec()), Some(Refusal::OwnAdvertisement));
    assert!(group.enter(0, 1).share(list).is_ok());
}

#[test]
fn replayed_messages_of_another_round_are_refused() {
    let group = group();
    let mut old = TestRound::masked(&group, 1);
    let old_signatures = old.sign(set(ALL));
    let mut round = TestRound::shared(&group, 2);
    let list = old.list.clone();
    assert_eq!(refusal(group.enter(0, 3).share(list)), Some(Refusal::AdvertisementSignature { site: 0 }));
    let shares = old.shares_for(0);
    assert_eq!(refusal(round.sites[0].mask(shares, &group.vector(0))), Some(Refusal::UnopenedShares { from: 1 }));
    group.sites().for_each(|site| drop(round.mask(site)));
    round.sign(set(ALL));
    let reveal = round.sites[0].reveal(&old_signatures);
    assert_eq!(refusal(reveal), Some(Refusal::SurvivorSignature { site: 0 }));
}

#[test]
fn split_roster_leaves_shares_that_do_not_open() {
    let group = group();
    let mut sites: Vec<_> = group.sites().map(|site| group.enter(site, 1)).collect();
    let list: Vec<_> = sites.iter().map(SiteRound::advertisement).collect();
    // Site 0 sees all sites, the others do not see site 3.
    let mut shares = sites[0].share(list.clone()).unwrap();
    for site in &mut sites[1..3] {
        shares.extend(site.share(list[..3].to_vec()).unwrap());
    }
    let shares: Vec<_> = shares.into_iter().filter(|sealed| sealed.to == 0).collect();
    let masked = sites[0].mask(shares, &group.vector(0));
    assert_eq!(refusal(masked), Some(Refusal::UnopenedShares { from: 1 }));
    assert_eq!(refusal(sites[0].share(list[..3].to_vec())), Some(Refusal::SecondAdvertisements));
}

#[test]
fn misdirected_and_changed_shares_are_refused() {
    let group = group();
    let mut round = TestRound::shared(&group, 1);
    let vector = group.vector(0);
    let right = round.shares_for(0);
    let mut mask = |shares: Vec<SealedShares>| refusal(round.sites[0].mask(shares, &vector));
    let mut to_other = right.clone();
    to_other[1].to = 2;
    assert_eq!(mask(to_other), Some(Refusal::MisdirectedShares { from: 2, to: 2 }));
    let mut from_other = right.clone();
    from_other[1].from = 3;
    from_other[2].from = 2;
    assert_eq!(mask(from_other), Some(Refusal::UnopenedShares { from: 2 }));
    let mut changed = right.clone();
    changed[0].ciphertext[5] ^= 1;
    assert_eq!(mask(changed), Some(Refusal::UnopenedShares { from: 1 }));
    let mut twice = right.clone();
    twice[1] = right[0].clone();
    assert_eq!(mask(twice), Some(Refusal::SiteTwice { site: 1 }));
    assert_eq!(mask(right.clone()), None);
    assert_eq!(mask(right[..2].to_vec()), Some(Refusal::SecondShares));
    assert_eq!(round.sites[0].confirm_shares(&right), Ok(()));
    assert_eq!(round.sites[0].confirm_shares(&right[..2]), Err(Refusal::SecondShares));
}

#[test]
fn second_vector_of_a_round_is_refused() {
    let group = group();
    let mut round = TestRound::shared(&group, 1);
    let first = round.mask(0);
    assert_eq!(round.mask(0), first, "the same bytes again");
    let shares = round.shares_for(0);
    let mut changed = group.vector(0);
    changed[4] -= 1;
    assert_eq!(refusal(round.sites[0].mask(shares.clone(), &changed)), Some(Refusal::SecondVector));
    let short = Refusal::Length { found: 4, expected: 5 };
    assert_eq!(refusal(round.sites[0].mask(shares, &changed[..4])), Some(short));
}

#[test]
fn two_sets_of_survivors_are_refused() {
    let group = group();
    let mut round = TestRound::masked(&group, 1);
    let (all, fewer) = (set(ALL), set([0, 1, 2]));
    // Site 3 signs another set than the others.
    let mut signatures = round.sign(fewer);
    signatures.push(round.sites[3].sign(all).unwrap());
    assert_eq!(refusal(round.sites[0].sign(all)), Some(Refusal::SecondSurvivors { signed: fewer, shown: all }));
    assert_eq!(refusal(round.sites[3].reveal(&signatures[..3])), Some(Refusal::SurvivorSignature { site: 0 }));
    assert_eq!(refusal(round.sites[0].reveal(&signatures)), Some(Refusal::SignerNotSurvivor { site: 3 }));
    let twice = [signatures[0].clone(), signatures[1].clone(), signatures[1].clone()];
    assert_eq!(refusal(round.sites[0].reveal(&twice)), Some(Refusal::SiteTwice { site: 1 }));
    assert!(round.sites[0].reveal(&signatures[..3]).is_ok());
}

#[test]
fn both_shares_of_one_peer_are_never_revealed() {
    let group = group();
    let mut round = TestRound::masked(&group, 1);
    let (all, without) = (set(ALL), set([0, 1, 2]));
    let signatures = round.sign(all);
    let reveal = round.sites[0].reveal(&signatures).unwrap();
    assert!(reveal.seeds.iter().map(|share| share.of).eq(ALL) && reveal.keys.is_empty());
    // Now the server declares site 3 gone, and asks for its key.
    assert_eq!(refusal(round.sites[0].sign(without)), Some(Refusal::SecondSurvivors { signed: all, shown: without }));
    let same = round.sites[0].reveal(&signatures).unwrap();
    assert_eq!(same, reveal);
    // In the other order: the key first, then the seed.
    let mut round = TestRound::masked(&group, 2);
    let signatures = round.sign(without);
    let reveal = round.sites[1].reveal(&signatures).unwrap();
    assert!(
        reveal.seeds.iter().map(|share| share.of).eq([0, 1, 2]) && reveal.keys.iter().map(|share| share.of).eq([3])
    );
    assert_eq!(refusal(round.sites[1].sign(all)), Some(Refusal::SecondSurvivors { signed: without, shown: all }));
}

#[test]
fn sets_of_other_sites_are_not_signed() {
    let group = group();
    let mut round = TestRound::shared(&group, 1);
    // The shares of site 3 did not arrive.
    let shares = round.shares_for(0)[..2].to_vec();
    round.sites[0].mask(shares, &group.vector(0)).unwrap();
    let (survivors, members) = (set(ALL), set([0, 1, 2]));
    assert_eq!(refusal(round.sites[0].sign(survivors)), Some(Refusal::NotMembers { survivors, members }));
    let mut round = TestRound::masked(&group, 2);
    let survivors = set([1, 2, 3]);
    assert_eq!(refusal(round.sites[0].sign(survivors)), Some(Refusal::NotSurvivor { survivors }));
}

#[test]
fn steps_out_of_order_are_refused() {
    let group = group();
    let mut round = TestRound::shared(&group, 1);
    let needs = |step, needs| Some(Refusal::OutOfOrder { step, needs });
    let mut fresh = group.enter(0, 2);
    assert_eq!(refusal(fresh.mask(round.shares_for(0), &group.vector(0))), needs("mask", "share"));
    assert_eq!(refusal(fresh.sign(set(ALL))), needs("sign", "share"));
    assert_eq!(refusal(round.sites[0].sign(set(ALL))), needs("sign", "mask"));
    round.mask(0);
    assert_eq!(refusal(round.sites[0].reveal(&[])), needs("reveal", "sign"));
}

#[test]
fn identity_of_another_site_is_refused() {
    let group = group();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let disk = TestDisk::default();
    let entered = SiteRound::enter(&group.accepted[0], &group.identities[1], group.context(1), disk, &mut rng);
    assert_eq!(refusal(entered), Some(Refusal::Identity { site: 0 }));
}
