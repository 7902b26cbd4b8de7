use super::*;

/// Plays rounds with each set of survivors, and with the others ending before they share or before they mask.
#[test]
fn sum_is_exact_for_each_set_of_survivors() {
    let mut opened = 0;
    for (sites, smallest_group, colluding) in [(3, 2, 0), (3, 3, 1), (4, 3, 0), (5, 3, 0), (6, 4, 1)] {
        let group = TestGroup::new(sites, smallest_group, colluding);
        for number in 0..1_u32 << sites {
            let survives = |site: usize| number >> site & 1 == 1;
            let expected = set(group.sites().filter(|site| survives(*site)).map(|site| site as SiteIndex));
            for early in [LastStep::Nothing, LastStep::Advertise, LastStep::Share] {
                // Without dropouts, or without a group, one way is enough.
                let is_open = group.roster.is_group(expected.len()) && expected.len() < sites;
                if early != LastStep::Share && !is_open {
                    continue;
                }
                // The first survivor beyond the smallest group ends after its vector, the next one after its signature.
                let place = |site: usize| expected.iter().position(|other| usize::from(other) == site);
                let last = |site: usize| match place(site) {
                    None => early,
                    Some(place) if place == usize::from(smallest_group) => LastStep::Mask,
                    Some(place) if place == usize::from(smallest_group) + 1 => LastStep::Sign,
                    Some(_) => LastStep::Reveal,
                };
                let round = 3 * number + early as u32;
                match play(&group, round, last) {
                    Ok((survivors, sum)) => {
                        assert!(group.roster.is_group(expected.len()), "{sites} {expected}");
                        assert_eq!((survivors, sum), (expected, group.sum(expected)), "{sites} {early:?}");
                        opened += 1;
                    }
                    Err(ServerError::Refused(Refusal::GroupTooSmall { .. })) => {
                        assert!(!group.roster.is_group(expected.len()), "{sites} {expected}");
                    }
                    Err(error) => panic!("{sites} {expected}: {error}"),
                }
            }
        }
    }
    // 4 + 1 + 5 + 16 + 22 sets, each in three ways but the full ones.
    assert_eq!(opened, 3 * 48 - 2 * 5);
}

#[test]
fn sum_of_fifty_sites_is_exact_with_dropouts() {
    let group = TestGroup::new(50, 30, 9);
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let steps = [LastStep::Advertise, LastStep::Share, LastStep::Mask, LastStep::Sign, LastStep::Reveal];
    let mut last = [LastStep::Reveal; 50];
    for _ in 0..20 {
        last[(rng.next_u32() % 50) as usize] = steps[(rng.next_u32() % 5) as usize];
    }
    let (survivors, sum) = play(&group, 1, |site| last[site]).unwrap();
    assert_eq!(survivors, set((0..50).filter(|site| last[usize::from(*site)] >= LastStep::Mask)));
    assert!(survivors.len() < 50, "nobody dropped out: the test is blind");
    assert_eq!(sum, group.sum(survivors));
}

/// Checks that the masks hide: the masked vectors of a round with zeros look like others, and add up to zero.
#[test]
fn masked_vectors_differ_from_the_vectors() {
    let terms = GroupTerms { smallest_group: 2, colluding: 0 };
    let identities = (1..4).map(|site| SigningKey::from_bytes(&[site; 32])).collect();
    let group = TestGroup::with([3; 32], identities, terms, Modulus::new(16).unwrap(), 4096);
    let mut round = TestRound::shared(&group, 1);
    for site in group.sites() {
        let shares = round.shares_for(site);
        let masked = round.sites[site].mask(shares, &[0; 4096]).unwrap();
        let mut values = vec![0; 4096];
        group.modulus.add_packed(&masked.bytes, &mut values).unwrap();
        // Uniform: each of 16 classes has 256 values on average, with a deviation of 15.5.
        let mut classes = [0; 16];
        for value in values {
            classes[(value >> 12) as usize] += 1;
        }
        assert!(classes.iter().all(|count| (150..362).contains(count)), "{classes:?}");
    }
}
