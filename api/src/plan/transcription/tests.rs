//! Every offer is admitted, and the next step toward the request is not.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_privacy::ledger::{Balance, Budget, GridKind, ReservationId};
use undertone_privacy::{Adjacency, Delta, Epsilon, PrivacyUnit};

use super::{RoundedKind as _, offers};
use crate::dataset::{Dataset, Visibility};
use crate::job::JobKind as _;
use crate::job::transcription::Spec;
use crate::job::transcription::tests::{chosen, example, ward};
use crate::plan::{AccountBalances, AccountKey, AffordableRounds, PlanParameter, PricedPlan};

/// Returns the documentation's example with other ε and δ, and the account that pays for it.
fn build_plan(epsilon: f64, delta: f64, budget: (f64, f64)) -> (Spec, Vec<Dataset>, AccountBalances) {
    let (mut spec, _) = example();
    spec.participant.epsilon = Epsilon::new(epsilon).unwrap();
    spec.participant.delta = Delta::new(delta).unwrap();
    let datasets = vec![ward()];
    assert_eq!(spec.check(&datasets), Vec::new());
    let limit = Epsilon::new(budget.0).unwrap();
    let budget = Budget::new(limit, Delta::new(budget.1).unwrap(), GridKind::for_epsilon(limit)).unwrap();
    let mut balances = AccountBalances::default();
    let organization = datasets[0].organization;
    let lineage = datasets[0].lineage;
    let key = AccountKey::new(organization, lineage, PrivacyUnit::Words, Adjacency::ZeroOut);
    balances.add(key, Balance::new(Some(budget)));
    (spec, datasets, balances)
}

/// Returns whether the account reserves the job `times` times.
fn can_reserve(spec: &Spec, datasets: &[Dataset], balances: &AccountBalances, times: u64) -> bool {
    let charge = spec.cost(&datasets[0]).unwrap();
    let mut balance = balances.balance(AccountKey::from_charge(&datasets[0], &charge)).unwrap().clone();
    let cost = balance.price(&charge.event, charge.adjacency).unwrap();
    balance.reserve(ReservationId(0), &cost, times).is_ok()
}

#[test]
fn a_job_is_priced_as_one_release_and_counted_in_transcriptions() {
    let (spec, datasets, balances) = build_plan(0.5, 1e-8, (8.0, 1e-5));
    let priced = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
    assert_eq!((priced.rounds, priced.quotes.len(), priced.admitted()), (1, 1, true));
    let buys = AffordableRounds::from_plan(&priced).unwrap();
    let fit = u64::from(buys.rounds_that_fit);
    assert!(
        fit >= 2 && can_reserve(&spec, &datasets, &balances, fit) && !can_reserve(&spec, &datasets, &balances, fit + 1)
    );
    assert!(buys.bottleneck.sentence.contains("transcription"), "{buys:?}");
    assert_eq!(offers(&spec, &datasets, &balances), Vec::new(), "a plan that fits needs no other");
}

#[test]
fn greatest_fitting_epsilon_is_offered_with_its_dummies() {
    let (spec, datasets, balances) = build_plan(4.0, 1e-8, (1.0, 1e-5));
    assert!(!can_reserve(&spec, &datasets, &balances, 1));
    let offered = offers(&spec, &datasets, &balances);
    let smaller = offered.iter().find(|offered| offered.knob == PlanParameter::Epsilon).unwrap();
    let (dataset, field, _, to) = &smaller.values[0];
    assert_eq!(field, "spec.participant.epsilon");
    assert!(can_reserve(&smaller.apply(&spec), &datasets, &balances, 1));
    let mut more = smaller.apply(&spec);
    more.set(PlanParameter::Epsilon, *dataset, to + 0.001);
    assert!(!can_reserve(&more, &datasets, &balances, 1), "{to} is not the greatest");
    assert!(
        smaller.sentence.starts_with('ε') && smaller.sentence.contains("dummies of each word"),
        "{}",
        smaller.sentence
    );
    assert!(
        offered.iter().all(|offered| offered.knob != PlanParameter::Delta),
        "no delta makes an epsilon of 4 one of 1"
    );
}

#[test]
fn offered_epsilon_keeps_the_part_of_the_chosen_words() {
    let (mut spec, datasets, balances) = build_plan(4.0, 1e-8, (1.0, 1e-5));
    spec.vocabulary = chosen(2, 0.3, 40);
    assert_eq!(spec.check(&datasets), Vec::new());
    let offered = offers(&spec, &datasets, &balances);
    let smaller = offered.iter().find(|offered| offered.knob == PlanParameter::Epsilon).unwrap();
    let changed = smaller.apply(&spec);
    assert!(can_reserve(&changed, &datasets, &balances, 1) && changed.participant.epsilon.get() > 0.31, "{smaller:?}");
    assert_eq!(changed.check(&datasets), Vec::new());
    assert_eq!(changed.vocabulary, spec.vocabulary);
}

#[test]
fn where_delta_decides_a_smaller_one_is_offered() {
    let (spec, datasets, balances) = build_plan(0.5, 1e-3, (8.0, 1e-5));
    assert!(!can_reserve(&spec, &datasets, &balances, 1));
    let offered = offers(&spec, &datasets, &balances);
    let smaller = offered.iter().find(|offered| offered.knob == PlanParameter::Delta).unwrap();
    assert!(can_reserve(&smaller.apply(&spec), &datasets, &balances, 1) && smaller.values[0].3 < 1e-5, "{smaller:?}");
    assert_eq!(smaller.values[0].1, "spec.participant.delta");
    let next = smaller.values[0].3 * 1.01;
    let mut more = spec.clone();
    more.set(PlanParameter::Delta, spec.participant.dataset, next);
    assert!(!can_reserve(&more, &datasets, &balances, 1), "{next}");
}

#[test]
fn public_recordings_have_no_price() {
    let (spec, mut datasets, balances) = build_plan(0.5, 1e-8, (8.0, 1e-5));
    datasets[0].visibility = Visibility::Public;
    assert!(PricedPlan::from_spec(&spec, &datasets, &balances).is_none());
}
