use super::*;
use crate::agreement::RoundSecrets;
use crate::modulus::ModulusError;
use crate::server::{MaskPhase, RevealPhase};

/// Plays a round of four sites until the vectors are expected.
fn mask_phase<'a>(group: &'a TestGroup, round: &mut TestRound<'a>) -> MaskPhase<'a> {
    let mut phase = AdvertisementPhase::new(&group.roster, group.context(1));
    round.list.iter().for_each(|advertisement| phase.receive(advertisement.clone()).unwrap());
    let mut phase = phase.close().unwrap();
    for site in group.sites() {
        let from = |sealed: &&SealedShares| usize::from(sealed.from) == site;
        phase.receive(site as SiteIndex, round.shares.iter().filter(from).cloned().collect()).unwrap();
    }
    phase.close().unwrap()
}

fn reveal_phase<'a>(group: &'a TestGroup, round: &mut TestRound<'a>) -> RevealPhase<'a> {
    let mut phase = mask_phase(group, round);
    (0..3).for_each(|site| phase.receive(&round.mask(site)).unwrap());
    let mut phase = phase.close().unwrap();
    round.sign(phase.survivors()).into_iter().for_each(|signature| phase.receive(signature).unwrap());
    phase.close().unwrap()
}

#[test]
fn server_refuses_false_and_second_messages() {
    let group = TestGroup::new(4, 3, 0);
    let mut round = TestRound::shared(&group, 1);
    let mut phase = AdvertisementPhase::new(&group.roster, group.context(1));
    phase.receive(round.list[0].clone()).unwrap();
    phase.receive(round.list[0].clone()).unwrap();
    let secrets = RoundSecrets::derive(&group.context(1), &[77; 32]);
    let second = Advertisement::new(&group.context(1), 0, &secrets, &group.identities[0]);
    assert_eq!(phase.receive(second), Err(ServerError::SecondMessage { site: 0 }));
    let by_other = Advertisement::new(&group.context(1), 2, &secrets, &group.identities[1]);
    assert_eq!(phase.receive(by_other), Err(Refusal::AdvertisementSignature { site: 2 }.into()));
    assert_eq!(phase.close().err(), Some(Refusal::GroupTooSmall { found: 1, least: 3 }.into()));

    let mut phase = mask_phase(&group, &mut round);
    let vector = round.mask(0);
    let mut longer = vector.clone();
    longer.bytes.push(0);
    let reason = ModulusError::Size { found: 10, expected: 9 };
    assert_eq!(phase.receive(&longer), Err(ServerError::Vector { site: 0, reason }));
    let mut other_members = vector.clone();
    other_members.members = set([0, 1, 2]);
    assert_eq!(phase.receive(&other_members), Err(ServerError::WrongSites { site: 0 }));
    phase.receive(&vector).unwrap();
    phase.receive(&vector).unwrap();
    let mut second = vector;
    second.bytes[0] ^= 1;
    assert_eq!(phase.receive(&second), Err(ServerError::SecondMessage { site: 0 }));
    second.site = 9;
    assert_eq!(phase.receive(&second), Err(ServerError::NotExpected { site: 9 }));
    assert_eq!(phase.count(), 1);
}

#[test]
fn false_shares_leave_the_sum_closed() {
    let group = TestGroup::new(4, 3, 0);
    // Of the seed of site 0, and of the key of site 3.
    for is_seed in [true, false] {
        let mut round = TestRound::shared(&group, 1);
        let mut phase = reveal_phase(&group, &mut round);
        let signatures = phase.signatures().to_vec();
        for site in 0..3 {
            let mut reveal = round.sites[site].reveal(&signatures).unwrap();
            if site == 1 {
                let share = if is_seed { &mut reveal.seeds[0] } else { &mut reveal.keys[0] };
                share.share[7] ^= 1;
            }
            phase.receive(reveal).unwrap();
        }
        let site = if is_seed { 0 } else { 3 };
        assert_eq!(phase.open(), Err(ServerError::FalseShares { site }));
    }
}

#[test]
fn incomplete_and_early_reveals_are_refused() {
    let group = TestGroup::new(4, 3, 0);
    let mut round = TestRound::shared(&group, 1);
    let mut phase = reveal_phase(&group, &mut round);
    let mut reveal = round.sites[0].reveal(phase.signatures()).unwrap();
    phase.receive(reveal.clone()).unwrap();
    reveal.keys.clear();
    assert_eq!(phase.receive(reveal.clone()), Err(ServerError::WrongSites { site: 0 }));
    reveal.site = 3;
    assert_eq!(phase.receive(reveal), Err(ServerError::NotExpected { site: 3 }));
    assert_eq!(phase.open(), Err(Refusal::GroupTooSmall { found: 1, least: 3 }.into()));
}

/// A site that advertises a point of small order would let anyone know its masks.
#[test]
fn keys_of_small_order_are_refused() {
    let group = TestGroup::new(4, 3, 0);
    for is_mask in [true, false] {
        let mut list: Vec<_> = group.sites().map(|site| group.enter(site, 1).advertisement()).collect();
        let key = if is_mask { &mut list[2].mask_key } else { &mut list[2].channel_key };
        *key = [0; 32];
        list[2].sign(&group.context(1), &group.identities[2]);
        assert_eq!(refusal(group.enter(0, 1).share(list)), Some(Refusal::WeakKey { site: 2 }));
    }
}
