//! The ledger's own rules admit every offer, and the counted pools fit.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::num::NonZeroU32;

use undertone_privacy::kanon::Shown;
use undertone_privacy::ledger::{Balance, Budget, GridKind, ReservationId};
use undertone_privacy::{Adjacency, Delta, Epsilon, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::{RoundedKind as _, ThreeDigits, offers};
use crate::dataset::Dataset;
use crate::job::JobKind as _;
use crate::job::active_learning::tests::{datasets, example, training};
use crate::job::active_learning::{PrivateTest, Spec};
use crate::plan::{AccountBalances, AccountKey, AffordableRounds, FittingChange, PlanParameter, PricedPlan};

/// Returns the documentation's example with another gate, and the account that pays for it.
fn build_plan(
    beta: f64,
    k: u32,
    epsilon: f64,
    shown: Shown,
    budget: (f64, f64),
) -> (Spec, Vec<Dataset>, AccountBalances) {
    let (mut spec, _) = example();
    let gate = spec.participants[1].gate.as_mut().unwrap();
    gate.sampling_rate = SamplingRate::floor(beta).unwrap();
    gate.threshold = NonZeroU32::new(k).unwrap();
    (gate.epsilon, gate.shown) = (Epsilon::new(epsilon).unwrap(), shown);
    gate.rows_per_unit = NonZeroU32::MIN;
    let datasets = datasets();
    assert_eq!(spec.check(&datasets), Vec::new());
    let limit = Epsilon::new(budget.0).unwrap();
    let budget = Budget::new(limit, Delta::new(budget.1).unwrap(), GridKind::for_epsilon(limit)).unwrap();
    let mut balances = AccountBalances::default();
    let organization = datasets[1].organization;
    let lineage = datasets[1].lineage;
    let key = AccountKey::new(organization, lineage, PrivacyUnit::User, Adjacency::ZeroOut);
    balances.add(key, Balance::new(Some(budget)));
    (spec, datasets, balances)
}

/// Returns whether the account reserves the plan's pool `times` times.
fn can_reserve(spec: &Spec, datasets: &[Dataset], balances: &AccountBalances, times: u64) -> bool {
    let charge = spec.cost(&datasets[1]).unwrap();
    let mut balance = balances.balance(AccountKey::from_charge(&datasets[1], &charge)).unwrap().clone();
    let cost = balance.price(&charge.event, charge.adjacency).unwrap();
    balance.reserve(ReservationId(0), &cost, times).is_ok()
}

fn find_change(offered: &[FittingChange], knob: PlanParameter) -> Option<&FittingChange> {
    offered.iter().find(|offered| offered.knob == knob)
}

#[test]
fn a_pool_is_priced_as_one_round_of_one_release() {
    let (spec, datasets, balances) = build_plan(0.1, 20, 0.5, Shown::Set, (1.0, 1e-6));
    let priced = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
    assert_eq!((priced.rounds, priced.quotes.len(), priced.admitted()), (1, 1, true));
    let buys = AffordableRounds::from_plan(&priced).unwrap();
    let fit = u64::from(buys.rounds_that_fit);
    assert!(
        fit >= 1 && can_reserve(&spec, &datasets, &balances, fit) && !can_reserve(&spec, &datasets, &balances, fit + 1)
    );
    assert!(buys.bottleneck.sentence.contains("pool") && !buys.bottleneck.sentence.contains("round"), "{buys:?}");
    assert_eq!(offers(&spec, &datasets, &balances), Vec::new(), "a plan that fits needs no other");
}

#[test]
fn where_delta_decides_the_least_threshold_that_fits_is_offered() {
    for (shown, beta) in [(Shown::Counts, 0.2), (Shown::CountsTight, 0.2), (Shown::Set, 0.3)] {
        let (spec, datasets, balances) = build_plan(beta, 5, 0.5, shown, (1.0, 1e-6));
        assert!(!can_reserve(&spec, &datasets, &balances, 1));
        let offered = offers(&spec, &datasets, &balances);
        for one in &offered {
            assert!(can_reserve(&one.apply(&spec), &datasets, &balances, 1), "not admitted: {one:?}");
        }
        let threshold = find_change(&offered, PlanParameter::Threshold).unwrap();
        let (dataset, field, _, to) = &threshold.values[0];
        assert_eq!(field, "spec.participants.1.gate.threshold");
        let mut less = threshold.apply(&spec);
        less.set(PlanParameter::Threshold, *dataset, to - 1.0);
        assert!(!can_reserve(&less, &datasets, &balances, 1), "k = {to} is not the least");
        assert!(
            find_change(&offered, PlanParameter::SamplingRate).is_some_and(|lower| lower.values[0].3 < beta),
            "{offered:?}"
        );
        assert_eq!(find_change(&offered, PlanParameter::Epsilon), None, "a smaller epsilon has a larger delta");
    }
}

#[test]
fn where_epsilon_decides_a_smaller_one_is_offered() {
    let (spec, datasets, balances) = build_plan(0.05, 60, 2.0, Shown::Set, (1.0, 1e-6));
    assert!(!can_reserve(&spec, &datasets, &balances, 1));
    let offered = offers(&spec, &datasets, &balances);
    assert_eq!(find_change(&offered, PlanParameter::Threshold), None, "no threshold makes an epsilon of 2 one of 1");
    let smaller = find_change(&offered, PlanParameter::Epsilon).unwrap();
    assert!(can_reserve(&smaller.apply(&spec), &datasets, &balances, 1));
    assert!((0.5..1.2).contains(&smaller.values[0].3), "{smaller:?}");
    assert!(smaller.sentence.starts_with('ε') && smaller.sentence.contains("for bank"), "{}", smaller.sentence);
}

#[test]
fn least_rate_that_is_refused_follows_the_offered_one() {
    // The published δ is not monotone in the rate: at 0.0931 it is within the budget, and at 0.0914 it is not.
    let (asked, k, epsilon) = (0.2, 20, 0.3);
    let (spec, datasets, balances) = build_plan(asked, k, epsilon, Shown::Counts, (1.0, 1e-6));
    let offered = offers(&spec, &datasets, &balances);
    let lower = find_change(&offered, PlanParameter::SamplingRate).unwrap();
    let (dataset, _, _, to) = &lower.values[0];
    assert!(can_reserve(&lower.apply(&spec), &datasets, &balances, 1), "{lower:?}");
    let mut rate = ThreeDigits::round_up(asked).step_down(1).unwrap();
    while rate.value() > *to {
        let mut greater = spec.clone();
        greater.set(PlanParameter::SamplingRate, *dataset, rate.value());
        assert!(!can_reserve(&greater, &datasets, &balances, 1), "{} is nearer than {to}", rate.value());
        rate = rate.step_down(1).unwrap();
    }
}

#[test]
fn epsilon_between_the_limits_of_loss_and_delta_is_offered() {
    // The loss is too great from 0.69 up, and δ below 0.51.
    let (spec, datasets, balances) = build_plan(0.2, 20, 2.0, Shown::Set, (0.85, 1e-6));
    let offered = offers(&spec, &datasets, &balances);
    let smaller = find_change(&offered, PlanParameter::Epsilon).unwrap();
    let (dataset, _, _, to) = &smaller.values[0];
    assert!((0.65..0.69).contains(to), "{smaller:?}");
    assert!(can_reserve(&smaller.apply(&spec), &datasets, &balances, 1));
    for refused in [to + 0.001, 0.489] {
        let mut other = spec.clone();
        other.set(PlanParameter::Epsilon, *dataset, refused);
        assert!(!can_reserve(&other, &datasets, &balances, 1), "{refused}");
    }
}

#[test]
fn epsilon_above_one_is_offered_where_it_fits() {
    let (spec, datasets, balances) = build_plan(0.1, 20, 6.0, Shown::Set, (4.0, 1e-6));
    assert!(!can_reserve(&spec, &datasets, &balances, 1));
    let offered = offers(&spec, &datasets, &balances);
    let smaller = find_change(&offered, PlanParameter::Epsilon).unwrap();
    let (dataset, _, _, to) = &smaller.values[0];
    assert!(*to > 1.0 && can_reserve(&smaller.apply(&spec), &datasets, &balances, 1), "{smaller:?}");
    let mut next = spec.clone();
    next.set(PlanParameter::Epsilon, *dataset, to + 0.01);
    assert!(!can_reserve(&next, &datasets, &balances, 1), "{to} is not the nearest");
}

#[test]
fn least_noise_of_a_private_lead_that_fits_is_offered() {
    let (mut spec, mut datasets, mut balances) = build_plan(0.05, 60, 0.25, Shown::Set, (1.0, 1e-6));
    datasets[0].visibility = crate::dataset::Visibility::Private;
    datasets[0].units = vec![PrivacyUnit::Record, PrivacyUnit::User];
    datasets[0].users = Some(crate::dataset::SizeClass(500));
    (spec.golden, spec.rehearsal, spec.private_lead) = (500, None, Some(training()));
    spec.tests.clear();
    let limit = Epsilon::new(1.0).unwrap();
    let budget = Budget::new(limit, Delta::new(1e-6).unwrap(), GridKind::for_epsilon(limit)).unwrap();
    let key = AccountKey::new(datasets[0].organization, datasets[0].lineage, PrivacyUnit::User, Adjacency::ZeroOut);
    balances.add(key, Balance::new(Some(budget)));
    let admits = |spec: &Spec| PricedPlan::from_spec(spec, &datasets, &balances).unwrap().admitted();
    assert!(!admits(&spec), "240 steps with z = 2 cost more than ε = 1");
    let offered = offers(&spec, &datasets, &balances);
    let [noise] = &offered[..] else { panic!("one change: {offered:?}") };
    let (dataset, field, from, to) = &noise.values[0];
    assert_eq!((field.as_str(), *from), ("spec.private_lead.noise_multiplier", 2.0));
    assert!(noise.sentence.starts_with("Noise multiplier z") && noise.sentence.contains("for collection"), "{noise:?}");
    assert!(admits(&noise.apply(&spec)));
    let mut less = spec.clone();
    less.set(PlanParameter::Noise, *dataset, to - 0.01);
    assert!(!admits(&less), "z = {to} is not the least");
}

#[test]
fn least_noise_of_a_private_test_set_that_fits_is_offered() {
    let (mut spec, mut datasets, mut balances) = build_plan(0.05, 60, 0.25, Shown::Set, (1.0, 1e-6));
    let id = crate::id::DatasetId(uuid::Uuid::from_u128(3));
    let lineage = crate::id::LineageId(uuid::Uuid::from_u128(103));
    datasets.push(Dataset { id, lineage, classes: 3, name: "golden-test".to_owned(), ..datasets[1].clone() });
    let noise_multiplier = NoiseMultiplier::new(4.0).unwrap();
    spec.private_test = Some(PrivateTest { dataset: id, noise_multiplier, measurements: 3 });
    let limit = Epsilon::new(1.0).unwrap();
    let budget = Budget::new(limit, Delta::new(1e-6).unwrap(), GridKind::for_epsilon(limit)).unwrap();
    let key = AccountKey::new(datasets[2].organization, lineage, PrivacyUnit::User, Adjacency::ZeroOut);
    balances.add(key, Balance::new(Some(budget)));
    let admits = |spec: &Spec| PricedPlan::from_spec(spec, &datasets, &balances).unwrap().admitted();
    assert!(!admits(&spec), "3 measurements with z = 4 cost more than ε = 1");
    let offered = offers(&spec, &datasets, &balances);
    let [noise] = &offered[..] else { panic!("one change: {offered:?}") };
    let (dataset, field, from, to) = &noise.values[0];
    assert_eq!((*dataset, field.as_str(), *from), (id, "spec.private_test.noise_multiplier", 4.0));
    assert!(noise.sentence.contains("for golden-test"), "{noise:?}");
    assert!(admits(&noise.apply(&spec)));
    let mut less = spec.clone();
    less.set(PlanParameter::Noise, id, to - 0.01);
    assert!(!admits(&less), "z = {to} is not the least");
}

#[test]
fn a_public_log_alone_has_no_price() {
    let (mut spec, mut datasets, balances) = build_plan(0.1, 20, 0.5, Shown::Set, (1.0, 1e-6));
    datasets[1].visibility = crate::dataset::Visibility::Public;
    assert!(PricedPlan::from_spec(&spec, &datasets, &balances).is_none());
    spec.participants.truncate(1);
    assert_eq!(spec.rounds(), 0);
}
