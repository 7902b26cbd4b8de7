#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;

use undertone_privacy::histogram::{Partition, TruncatedLaplace};
use undertone_privacy::{Delta, Epsilon};

use super::*;

fn count(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn mechanism(rate: f64, shift: u32, providers: u32) -> Mechanism {
    let noise = TruncatedLaplace::new(Epsilon::new(rate).unwrap(), shift).unwrap();
    Mechanism::new(noise, count(1), Partition::new(count(providers), count(1)).unwrap()).unwrap()
}

fn chance(seed: u8) -> Chance {
    let random = |purpose| Randomness::in_test(purpose, seed);
    Chance::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap()
}

/// Twelve pieces: one with several words, the others with word 0, word 1, nothing, in turn.
fn pieces() -> Vec<Candidate> {
    let held = |piece| match piece {
        11 => Held::Several,
        other if other % 3 == 2 => Held::Nothing,
        other => Held::One(other % 3),
    };
    (0..12).map(|piece| (piece, held(piece))).collect()
}

fn draw(mechanism: Mechanism, seed: u8) -> Plan {
    Plan::draw(mechanism, 2, Disclosure::Nothing, &pieces(), Crowded::Keep, &chance(seed)).unwrap()
}

/// Five deviations of chi-square.
fn bound(freedom: f64) -> f64 {
    freedom + 5.0 * (2.0 * freedom).sqrt()
}

#[test]
fn every_piece_and_every_dummy_is_sent_once_by_one_provider() {
    let plan = draw(mechanism(0.5, 6, 3), 1);
    let sent: Vec<Item> = (0..3).flat_map(|provider| plan.batch(provider)).copied().collect();
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), sent.len(), "nothing is sent twice");
    let pieces: BTreeSet<u32> =
        sent.iter().filter_map(|item| if let Item::Piece(piece) = item { Some(*piece) } else { None }).collect();
    assert_eq!(pieces, (0..11).collect());
    assert_eq!(plan.kept(), [11]);
    for dummy in plan.dummies() {
        let at: Vec<u32> = (0..3).filter(|p| plan.batch(*p).contains(&Item::Dummy(dummy.number))).collect();
        assert_eq!(at, [dummy.provider], "dummy {}", dummy.number);
    }
    assert_eq!(plan.dummies().count() + 11, sent.len());
    assert!(plan.batch(3).is_empty());
}

#[test]
fn dummies_without_a_word_cover_the_pieces_without_one() {
    let plan = draw(mechanism(0.5, 20, 2), 4);
    for provider in 0..2 {
        for word in [Some(0), Some(1), None] {
            let count = plan.dummies().filter(|dummy| (dummy.provider, dummy.word) == (provider, word)).count();
            // Less than 1 of 2,000 plans is further than 16 from its shift at one of six.
            assert!((4..=36).contains(&count), "{count} of {word:?} at {provider}");
        }
    }
}

#[test]
fn crowded_pieces_leave_only_when_they_are_asked_for() {
    let draw =
        |crowded| Plan::draw(mechanism(0.5, 6, 2), 2, Disclosure::Nothing, &pieces(), crowded, &chance(2)).unwrap();
    let leaves = |plan: &Plan| (0..2).any(|provider| plan.batch(provider).contains(&Item::Piece(11)));
    assert!(!leaves(&draw(Crowded::Keep)));
    let sent = draw(Crowded::Send);
    assert!(leaves(&sent) && sent.kept().is_empty());
}

#[test]
fn a_provider_sees_its_share_of_the_words_plus_the_noise() {
    // Word 0 is in pieces 0, 3, 6 and 9: what provider 0 sees of it is Bin(4, 1/2) + η.
    let mechanism = mechanism(1.0, 3, 2);
    let plans = 4_000_u32;
    let mut seen: BTreeMap<u64, f64> = BTreeMap::new();
    for seed in 0..plans {
        let plan = Plan::draw(mechanism, 2, Disclosure::Nothing, &pieces(), Crowded::Keep, &numbered(seed)).unwrap();
        let dummies = plan.dummies().filter(|dummy| (dummy.provider, dummy.word) == (0, Some(0))).count();
        let pieces = [0, 3, 6, 9].iter().filter(|piece| plan.batch(0).contains(&Item::Piece(**piece))).count();
        *seen.entry((dummies + pieces) as u64).or_default() += 1.0;
    }
    let binomial = [1.0, 4.0, 6.0, 4.0, 1.0].map(|ways| ways / 16.0);
    let probability = |total: u64| -> f64 {
        let part = |(landed, mass): (u64, &f64)| {
            total.checked_sub(landed).map_or(0.0, |dummies| mass * mechanism.noise().probability(dummies))
        };
        (0..).zip(&binomial).map(part).sum()
    };
    let (mut sum, mut freedom) = (0.0, 0.0);
    for total in 0..30 {
        let mean = probability(total) * f64::from(plans);
        if mean >= 5.0 {
            sum += (seen.get(&total).copied().unwrap_or(0.0) - mean).powi(2) / mean;
            freedom += 1.0;
        }
    }
    assert!(freedom > 5.0 && sum < bound(freedom), "{sum} with {freedom}");
}

/// As many seeds as one likes.
fn numbered(seed: u32) -> Chance {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let published = crate::site::clearance::Published::in_test();
    let random = |purpose| Randomness::rehearsed(&published, purpose, bytes);
    Chance::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap()
}

#[test]
fn pieces_are_assigned_uniformly_and_each_for_itself() {
    // Where pieces 0 and 1 go, over three providers: nine pairs, all alike.
    let mechanism = mechanism(2.0, 0, 3);
    let plans = 3_600_u32;
    let mut pairs = [0.0; 9];
    for seed in 0..plans {
        let pieces = [(0, Held::Nothing), (1, Held::Nothing)];
        let plan = Plan::draw(mechanism, 1, Disclosure::Nothing, &pieces, Crowded::Keep, &numbered(seed)).unwrap();
        let at = |piece| (0..3).find(|provider| plan.batch(*provider).contains(&Item::Piece(piece))).unwrap();
        pairs[(at(0) * 3 + at(1)) as usize] += 1.0;
    }
    let mean = f64::from(plans) / 9.0;
    let sum: f64 = pairs.iter().map(|hits| (hits - mean) * (hits - mean) / mean).sum();
    assert!(sum < bound(8.0), "{pairs:?}");
}

#[test]
fn every_order_is_equally_likely() {
    let mut rng = Randomness::in_test(Purpose::Assignment, 3).stream(1);
    let mut orders: BTreeMap<[u32; 4], f64> = BTreeMap::new();
    let rounds = 12_000;
    for _ in 0..rounds {
        let mut items: Vec<Item> = (0..4).map(Item::Piece).collect();
        shuffle(&mut items, &mut rng);
        let numbers: Vec<u32> =
            items.iter().map(|item| if let Item::Piece(piece) = item { *piece } else { 9 }).collect();
        *orders.entry(numbers.try_into().unwrap()).or_default() += 1.0;
    }
    let mean = f64::from(rounds) / 24.0;
    let sum: f64 = orders.values().map(|hits| (hits - mean) * (hits - mean) / mean).sum();
    assert!(orders.len() == 24 && sum < bound(23.0), "{sum}");
}

#[test]
fn a_plan_is_drawn_once_and_found_again_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let plan = draw(mechanism(0.5, 6, 3), 7);
    let paid = plan.event().unwrap();
    let first = Plan::once(&path, &paid, || Ok(plan.clone())).unwrap();
    let again = Plan::once(&path, &paid, || panic!("it is drawn a second time")).unwrap();
    assert!(first == plan && again == plan);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_plan_of_another_release_or_a_damaged_one_is_not_followed_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let plan = draw(mechanism(0.5, 6, 3), 7);
    let paid = plan.event().unwrap();
    let other = mechanism(0.5, 7, 3).event(Disclosure::Nothing).unwrap();
    assert!(Plan::once(&path, &other, || Ok(plan.clone())).unwrap_err().to_string().contains("another release"));
    assert!(!path.exists(), "what was not paid for is not kept");
    Plan::once(&path, &paid, || Ok(plan)).unwrap();
    let never = || panic!("it is drawn a second time");
    assert!(Plan::once(&path, &other, never).unwrap_err().to_string().contains("another release"));
    let kept = std::fs::read_to_string(&path).unwrap();
    let middle = (0..20).map(|number| format!(r#"{{"dummy":{number}}},"#)).find(|dummy| kept.contains(dummy)).unwrap();
    let missing = kept.replacen(&middle, "", 1);
    for damaged in [&kept[..kept.len() / 2], missing.as_str()] {
        std::fs::write(&path, damaged).unwrap();
        assert!(matches!(Plan::once(&path, &paid, never), Err(PlanError::Kept(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    }
}

#[test]
fn a_crash_while_it_is_written_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    std::fs::write(dir.path().join("plan.growing"), "half").unwrap();
    let plan = draw(mechanism(0.5, 6, 3), 7);
    assert!(Plan::once(&path, &plan.event().unwrap(), || Ok(plan.clone())).unwrap() == plan);
}

#[test]
fn what_costs_too_much_or_makes_no_sense_is_refused_before_anything_is_drawn() {
    let refused = |mechanism, words, pieces: &[Candidate]| {
        Plan::draw(mechanism, words, Disclosure::Nothing, pieces, Crowded::Keep, &chance(1)).unwrap_err()
    };
    let much = refused(mechanism(0.5, 1_000, 10), 100, &[]);
    assert!(matches!(much, PlanError::Dummies { expected } if expected > MOST_DUMMIES), "{much}");
    let just = Plan::draw(mechanism(1.0, 1, 10), 2, Disclosure::Nothing, &[], Crowded::Keep, &chance(1));
    assert!(just.is_ok());
    assert!(matches!(refused(mechanism(1.0, 1, MOST_PROVIDERS + 1), 2, &[]), PlanError::Providers(101)));
    let most = mechanism(1.0, 1, MOST_PROVIDERS);
    assert!(Plan::draw(most, 2, Disclosure::Nothing, &[], Crowded::Keep, &chance(1)).is_ok());
    let twice = [(4, Held::Nothing), (5, Held::Nothing), (4, Held::One(0))];
    assert!(matches!(refused(mechanism(1.0, 1, 2), 2, &twice), PlanError::Piece(4)));
    assert!(matches!(refused(mechanism(1.0, 1, 2), 2, &[(8, Held::One(2))]), PlanError::Piece(8)));
    let noise = || Randomness::in_test(Purpose::Noise, 1);
    let words = || Randomness::in_test(Purpose::DummyWords, 1);
    assert!(matches!(Chance::new(words(), noise()), Err(PlanError::Purpose(Purpose::Noise))));
    assert!(matches!(Chance::new(noise(), words()), Err(PlanError::Purpose(Purpose::Noise))));
}

#[test]
fn a_plan_that_sends_what_may_not_leave_any_more_is_known() {
    let plan = draw(mechanism(0.5, 6, 3), 9);
    assert!(plan.sends_only(&pieces()));
    assert!(plan.sends_only(&pieces()[..11]), "piece 11 is kept anyway");
    assert!(!plan.sends_only(&pieces()[..10]), "piece 10 is sent by somebody");
    assert!(!plan.sends_only(&[]));
}

#[test]
fn a_calibrated_plan_is_charged_what_its_noise_promises() {
    let (epsilon, delta) = (Epsilon::new(2.0).unwrap(), Delta::new(1e-4).unwrap());
    let partition = Partition::new(count(2), count(1)).unwrap();
    let mechanism = Mechanism::calibrated(epsilon, delta, count(4), partition).unwrap();
    let plan = Plan::draw(mechanism, 2, Disclosure::Words(1), &pieces(), Crowded::Keep, &Chance::from_os()).unwrap();
    assert_eq!(plan.event().unwrap(), mechanism.event(Disclosure::Words(1)).unwrap());
    assert!(!format!("{plan:?}").contains("order"), "what was drawn is not printed");
}
