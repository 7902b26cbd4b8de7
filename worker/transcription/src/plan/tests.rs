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

fn mechanism(rate: f64, shift: u32, providers: u32) -> DummyMechanism {
    let noise = TruncatedLaplace::new(Epsilon::new(rate).unwrap(), shift).unwrap();
    DummyMechanism::new(noise, count(1), Partition::new(count(providers), count(1)).unwrap()).unwrap()
}

fn chance(seed: u8) -> PlanRandomness {
    let random = |purpose| Randomness::in_test(purpose, seed);
    PlanRandomness::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap()
}

/// Twelve pieces: one with several words, the others with word 0, word 1 and nothing, in turn.
fn pieces() -> Vec<Candidate> {
    let words_of = |piece| match piece {
        11 => PieceWords::Several,
        other if other % 3 == 2 => PieceWords::Nothing,
        other => PieceWords::One(other % 3),
    };
    (0..12).map(|piece| (piece, words_of(piece))).collect()
}

fn draw(mechanism: DummyMechanism, seed: u8) -> Plan {
    Plan::draw(mechanism, 2, WordDisclosure::Nothing, &pieces(), CrowdedPieces::Keep, &chance(seed)).unwrap()
}

/// The mean plus five standard deviations of chi-square.
fn bound(freedom: f64) -> f64 {
    freedom + 5.0 * (2.0 * freedom).sqrt()
}

#[test]
fn pieces_and_dummies_are_sent_once_by_one_provider() {
    let plan = draw(mechanism(0.5, 6, 3), 1);
    let items: Vec<BatchItem> = (0..3).flat_map(|provider| plan.batch(provider)).copied().collect();
    assert_eq!(items.iter().collect::<BTreeSet<_>>().len(), items.len(), "nothing is items twice");
    let pieces: BTreeSet<u32> =
        items.iter().filter_map(|item| if let BatchItem::Piece(piece) = item { Some(*piece) } else { None }).collect();
    assert_eq!(pieces, (0..11).collect());
    assert_eq!(plan.offline_pieces(), [11]);
    for dummy in plan.dummies() {
        let at: Vec<u32> = (0..3).filter(|p| plan.batch(*p).contains(&BatchItem::Dummy(dummy.number))).collect();
        assert_eq!(at, [dummy.provider], "dummy {}", dummy.number);
    }
    assert_eq!(plan.dummies().count() + 11, items.len());
    assert!(plan.batch(3).is_empty());
}

#[test]
fn dummies_without_word_cover_pieces_without_word() {
    let plan = draw(mechanism(0.5, 20, 2), 4);
    for provider in 0..2 {
        for word in [Some(0), Some(1), None] {
            let count = plan.dummies().filter(|dummy| (dummy.provider, dummy.word) == (provider, word)).count();
            // Fewer than 1 of 2,000 plans differ by more than 16 from the shift at one of six.
            assert!((4..=36).contains(&count), "{count} of {word:?} at {provider}");
        }
    }
}

#[test]
fn crowded_pieces_leave_only_on_request() {
    let draw =
        |crowded| Plan::draw(mechanism(0.5, 6, 2), 2, WordDisclosure::Nothing, &pieces(), crowded, &chance(2)).unwrap();
    let leaves = |plan: &Plan| (0..2).any(|provider| plan.batch(provider).contains(&BatchItem::Piece(11)));
    assert!(!leaves(&draw(CrowdedPieces::Keep)));
    let plan = draw(CrowdedPieces::Send);
    assert!(leaves(&plan) && plan.offline_pieces().is_empty());
}

#[test]
fn provider_counts_are_its_share_plus_noise() {
    // Word 0 is in pieces 0, 3, 6 and 9: provider 0 sees Bin(4, 1/2) + η of it.
    let mechanism = mechanism(1.0, 3, 2);
    let plans = 4_000_u32;
    let mut observed: BTreeMap<u64, f64> = BTreeMap::new();
    for seed in 0..plans {
        let plan =
            Plan::draw(mechanism, 2, WordDisclosure::Nothing, &pieces(), CrowdedPieces::Keep, &numbered(seed)).unwrap();
        let dummies = plan.dummies().filter(|dummy| (dummy.provider, dummy.word) == (0, Some(0))).count();
        let pieces = [0, 3, 6, 9].iter().filter(|piece| plan.batch(0).contains(&BatchItem::Piece(**piece))).count();
        *observed.entry((dummies + pieces) as u64).or_default() += 1.0;
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
            sum += (observed.get(&total).copied().unwrap_or(0.0) - mean).powi(2) / mean;
            freedom += 1.0;
        }
    }
    assert!(freedom > 5.0 && sum < bound(freedom), "{sum} with {freedom}");
}

/// Randomness from any number of seeds.
fn numbered(seed: u32) -> PlanRandomness {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let published = undertone_worker_site::clearance::PublicProof::in_test();
    let random = |purpose| Randomness::rehearsed(&published, purpose, bytes);
    PlanRandomness::new(random(Purpose::DummyWords), random(Purpose::Assignment)).unwrap()
}

#[test]
fn pieces_are_assigned_uniformly_and_independently() {
    // The providers of pieces 0 and 1, out of three: nine pairs, equally likely.
    let mechanism = mechanism(2.0, 0, 3);
    let plans = 3_600_u32;
    let mut pairs = [0.0; 9];
    for seed in 0..plans {
        let pieces = [(0, PieceWords::Nothing), (1, PieceWords::Nothing)];
        let plan =
            Plan::draw(mechanism, 1, WordDisclosure::Nothing, &pieces, CrowdedPieces::Keep, &numbered(seed)).unwrap();
        let at = |piece| (0..3).find(|provider| plan.batch(*provider).contains(&BatchItem::Piece(piece))).unwrap();
        pairs[(at(0) * 3 + at(1)) as usize] += 1.0;
    }
    let mean = f64::from(plans) / 9.0;
    let sum: f64 = pairs.iter().map(|hits| (hits - mean) * (hits - mean) / mean).sum();
    assert!(sum < bound(8.0), "{pairs:?}");
}

#[test]
fn batch_orders_are_equally_likely() {
    let mut rng = Randomness::in_test(Purpose::Assignment, 3).stream(1);
    let mut orders: BTreeMap<[u32; 4], f64> = BTreeMap::new();
    let rounds = 12_000;
    for _ in 0..rounds {
        let mut items: Vec<BatchItem> = (0..4).map(BatchItem::Piece).collect();
        shuffle(&mut items, &mut rng);
        let numbers: Vec<u32> =
            items.iter().map(|item| if let BatchItem::Piece(piece) = item { *piece } else { 9 }).collect();
        *orders.entry(numbers.try_into().unwrap()).or_default() += 1.0;
    }
    let mean = f64::from(rounds) / 24.0;
    let sum: f64 = orders.values().map(|hits| (hits - mean) * (hits - mean) / mean).sum();
    assert!(orders.len() == 24 && sum < bound(23.0), "{sum}");
}

#[test]
fn stored_plan_is_reloaded_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let plan = draw(mechanism(0.5, 6, 3), 7);
    let event = plan.event().unwrap();
    let first = Plan::once(&path, &event, || Ok(plan.clone())).unwrap();
    let again = Plan::once(&path, &event, || panic!("it is drawn a second time")).unwrap();
    assert!(first == plan && again == plan);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn damaged_or_foreign_plan_is_refused_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let plan = draw(mechanism(0.5, 6, 3), 7);
    let event = plan.event().unwrap();
    let other = mechanism(0.5, 7, 3).event(WordDisclosure::Nothing).unwrap();
    assert!(Plan::once(&path, &other, || Ok(plan.clone())).unwrap_err().to_string().contains("another release"));
    assert!(!path.exists(), "what was not event for is not kept");
    Plan::once(&path, &event, || Ok(plan)).unwrap();
    let never = || panic!("it is drawn a second time");
    assert!(Plan::once(&path, &other, never).unwrap_err().to_string().contains("another release"));
    let stored = std::fs::read_to_string(&path).unwrap();
    let middle =
        (0..20).map(|number| format!(r#"{{"dummy":{number}}},"#)).find(|dummy| stored.contains(dummy)).unwrap();
    let missing = stored.replacen(&middle, "", 1);
    for damaged in [&stored[..stored.len() / 2], missing.as_str()] {
        std::fs::write(&path, damaged).unwrap();
        assert!(matches!(Plan::once(&path, &event, never), Err(PlanError::Kept(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    }
}

#[test]
fn crash_during_write_leaves_no_plan() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    std::fs::write(dir.path().join("plan.growing"), "half").unwrap();
    let plan = draw(mechanism(0.5, 6, 3), 7);
    assert!(Plan::once(&path, &plan.event().unwrap(), || Ok(plan.clone())).unwrap() == plan);
}

#[test]
fn excessive_or_inconsistent_plan_is_refused_before_drawing() {
    let refused = |mechanism, words, pieces: &[Candidate]| {
        Plan::draw(mechanism, words, WordDisclosure::Nothing, pieces, CrowdedPieces::Keep, &chance(1)).unwrap_err()
    };
    let much = refused(mechanism(0.5, 1_000, 10), 100, &[]);
    assert!(matches!(much, PlanError::Dummies { expected } if expected > MOST_DUMMIES), "{much}");
    let just = Plan::draw(mechanism(1.0, 1, 10), 2, WordDisclosure::Nothing, &[], CrowdedPieces::Keep, &chance(1));
    assert!(just.is_ok());
    assert!(matches!(refused(mechanism(1.0, 1, MOST_PROVIDERS + 1), 2, &[]), PlanError::Providers(101)));
    let most = mechanism(1.0, 1, MOST_PROVIDERS);
    assert!(Plan::draw(most, 2, WordDisclosure::Nothing, &[], CrowdedPieces::Keep, &chance(1)).is_ok());
    let twice = [(4, PieceWords::Nothing), (5, PieceWords::Nothing), (4, PieceWords::One(0))];
    assert!(matches!(refused(mechanism(1.0, 1, 2), 2, &twice), PlanError::Piece(4)));
    assert!(matches!(refused(mechanism(1.0, 1, 2), 2, &[(8, PieceWords::One(2))]), PlanError::Piece(8)));
    let noise = || Randomness::in_test(Purpose::Noise, 1);
    let words = || Randomness::in_test(Purpose::DummyWords, 1);
    assert!(matches!(PlanRandomness::new(words(), noise()), Err(PlanError::Purpose(Purpose::Noise))));
    assert!(matches!(PlanRandomness::new(noise(), words()), Err(PlanError::Purpose(Purpose::Noise))));
}

#[test]
fn plan_sending_forbidden_pieces_is_detected() {
    let plan = draw(mechanism(0.5, 6, 3), 9);
    assert!(plan.sends_only(&pieces()));
    assert!(plan.sends_only(&pieces()[..11]), "piece 11 is kept anyway");
    assert!(!plan.sends_only(&pieces()[..10]), "piece 10 is sent by somebody");
    assert!(!plan.sends_only(&[]));
}

#[test]
fn calibrated_plan_is_charged_by_its_noise() {
    let epsilon = Epsilon::new(2.0).unwrap();
    let delta = Delta::new(1e-4).unwrap();
    let partition = Partition::new(count(2), count(1)).unwrap();
    let mechanism = DummyMechanism::calibrated(epsilon, delta, count(4), partition).unwrap();
    let plan =
        Plan::draw(mechanism, 2, WordDisclosure::Words(1), &pieces(), CrowdedPieces::Keep, &PlanRandomness::from_os())
            .unwrap();
    assert_eq!(plan.event().unwrap(), mechanism.event(WordDisclosure::Words(1)).unwrap());
    assert!(!format!("{plan:?}").contains("order"), "what was drawn is not printed");
}
