//! The laws of planning: the accounts themselves admit each fitting plan, and not the plan one step beyond it.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use proptest::prelude::*;
use time::OffsetDateTime;
use undertone_privacy::ledger::{Balance, Budget, FilterKind, GridKind, ReservationId};
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::offer::ThreeDigits;
use super::price::largest;
use super::{AccountBalances, AccountKey, FittingChange, PlanParameter, PlanParty, PricedPlan, RoundedKind, offers};
use crate::dataset::{Dataset, SizeClass, Visibility};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::JobKind;
use crate::job::dp_sgd::{AcousticModel, AverageWeights, Noise, Optimizer, Party, Rounds, Spec, TestSet, WarmStart};

/// One private dataset of a consortium: the content of its account, and the plan's demand.
#[derive(Debug, Clone)]
struct TestSite {
    ln_epsilon: f64,
    spent: u64,
    rate: f64,
    noise: f64,
    /// Whether it is another version of the dataset before it, so that both pay from one account.
    version: bool,
}

fn site() -> impl Strategy<Value = TestSite> {
    let one = (-0.5f64..5.5, 0u64..40, 0.004f64..1.0, 0.2f64..8.0, prop::bool::weighted(0.2));
    one.prop_map(|(ln_epsilon, spent, rate, noise, version)| TestSite { ln_epsilon, spent, rate, noise, version })
}

fn id(index: usize) -> DatasetId {
    DatasetId(Uuid::from_u128(0x100 + index as u128))
}

fn dataset(index: usize, lineage: usize) -> Dataset {
    let public = index == 0;
    Dataset {
        id: id(index),
        lineage: LineageId(Uuid::from_u128(0x200 + lineage as u128)),
        organization: OrganizationId(Uuid::from_u128(0x300 + lineage as u128)),
        organization_name: format!("organization {lineage}"),
        worker: WorkerId(Uuid::from_u128(0x400 + index as u128)),
        name: format!("set-{index}"),
        visibility: if public { Visibility::Public } else { Visibility::Private },
        content: crate::dataset::DatasetContent::Speech,
        inputs: 13,
        classes: 100,
        records: SizeClass(1000),
        speakers: SizeClass(200),
        test_records: 100,
        seconds: None,
        users: None,
        table: None,
        units: crate::dataset::usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: OffsetDateTime::UNIX_EPOCH,
    }
}

fn event(rate: f64, noise: f64) -> Event {
    Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(rate).unwrap(),
        noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
    }
}

fn balance(site: &TestSite) -> Balance {
    let epsilon = Epsilon::new(site.ln_epsilon.exp()).unwrap();
    let budget = Budget::new(epsilon, Delta::new(1e-6).unwrap(), GridKind::for_epsilon(epsilon)).unwrap();
    let mut balance = Balance::new(Some(budget));
    let cost = balance.price(&event(0.02, 4.0), Adjacency::AddRemove).unwrap();
    // Spending that no longer fits is left out.
    let _ = balance.reserve(ReservationId(1), &cost, site.spent);
    balance
}

/// Makes a consortium of a public leader and the sites, with a plan.
fn build_plan(sites: &[TestSite], rounds: u32) -> (Spec, Vec<Dataset>, AccountBalances) {
    let mut datasets = vec![dataset(0, 0)];
    let mut balances = AccountBalances::default();
    let mut participants = vec![Party { dataset: id(0), sampling_rate: SamplingRate::ONE, noise: None, rounds: None }];
    let mut lineage = 0;
    for (index, site) in sites.iter().enumerate() {
        if index == 0 || !site.version {
            lineage = index + 1;
        }
        let member_dataset = dataset(index + 1, lineage);
        let key = AccountKey::new(
            member_dataset.organization,
            member_dataset.lineage,
            PrivacyUnit::Speaker,
            Adjacency::ZeroOut,
        );
        balances.add(key, balance(site));
        participants.push(Party {
            dataset: member_dataset.id,
            sampling_rate: SamplingRate::new(site.rate).unwrap(),
            noise: Some(Noise::flat(NoiseMultiplier::new(site.noise).unwrap(), 1.0)),
            rounds: None,
        });
        datasets.push(member_dataset);
    }
    let spec = Spec {
        unit: PrivacyUnit::Speaker,
        model: AcousticModel::lstm(20, None),
        initial_model: None,
        participants,
        open_terms: Vec::new(),
        rehearsal: None,
        tests: vec![TestSet { name: "test".to_owned(), dataset: id(0) }],
        warm_start: WarmStart { epochs: 1, batch: 4, learning_rate: 0.001, seed: 1 },
        open: None,
        private: Some(Rounds {
            evaluate_every: 5,
            deadline_seconds: 60,
            ..Rounds::new(rounds, Optimizer::Adam { learning_rate: 0.001 })
        }),
        audit: None,
        selection: None,
        secure_aggregation: None,
        weights: AverageWeights::ExpectedBatch,
        spare_releases: 4,
        checkpoint_every: 10,
    };
    assert_eq!(spec.check(&datasets), Vec::new());
    (spec, datasets, balances)
}

/// Reserves a plan as the ledger does: dataset by dataset, each on the balance that the previous one left.
fn can_reserve(spec: &Spec, datasets: &[Dataset], balances: &AccountBalances) -> bool {
    let mut open: Vec<(AccountKey, Balance)> = Vec::new();
    datasets.iter().filter_map(|dataset| Some((dataset, spec.cost(dataset)?))).all(|(dataset, charge)| {
        let key = AccountKey::from_charge(dataset, &charge);
        if !open.iter().any(|(candidate, _)| *candidate == key) {
            open.push((key, balances.balance(key).unwrap().clone()));
        }
        let (_, balance) = open.iter_mut().find(|(candidate, _)| *candidate == key).unwrap();
        let cost = balance.job_cost(&charge.event, charge.releases, charge.adjacency).unwrap();
        balance.reserve_job(ReservationId(0), &cost, charge.releases).is_ok()
    })
}

/// Returns the plans one step from an offer toward the request: all rounds, or one account's numbers at a time.
fn next_plans(offered: &FittingChange, spec: &Spec, datasets: &[Dataset]) -> Vec<Spec> {
    let step = |to: f64, from: f64| match offered.knob {
        PlanParameter::Rounds => to + 1.0,
        PlanParameter::Noise => ((to * 1000.0).round() - 1.0) / 1000.0,
        PlanParameter::SamplingRate => ThreeDigits::round_up(to * (1.0 + 1e-6)).value().min(from),
        PlanParameter::Threshold | PlanParameter::Epsilon | PlanParameter::Delta => {
            panic!("no training plan is offered another {:?}", offered.knob)
        }
    };
    let lineage = |id| datasets.iter().find(|dataset| dataset.id == id).unwrap().lineage;
    let mut lineages: Vec<LineageId> = offered.values.iter().map(|(id, ..)| lineage(*id)).collect();
    lineages.dedup();
    lineages
        .into_iter()
        .map(|account| {
            let mut near = offered.apply(spec);
            for (id, _, from, to) in offered.values.iter().filter(|(id, ..)| lineage(*id) == account) {
                near.set(offered.knob, *id, step(*to, *from));
            }
            near
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn offered_plan_is_admitted_and_next_step_is_not(
        sites in prop::collection::vec(site(), 1..4), ln_rounds in 0.0f64..9.0
    ) {
        let (spec, datasets, balances) = build_plan(&sites, ln_rounds.exp() as u32);
        let offered = offers(&spec, &datasets, &balances);
        if can_reserve(&spec, &datasets, &balances) {
            prop_assert!(offered.is_empty(), "a plan that fits needs no other: {offered:?}");
        }
        for offered in offered {
            let changed = offered.apply(&spec);
            prop_assert_eq!(changed.check(&datasets), Vec::new());
            prop_assert!(can_reserve(&changed, &datasets, &balances), "not admitted: {:?}", offered);
            for near in next_plans(&offered, &spec, &datasets) {
                prop_assert!(!can_reserve(&near, &datasets, &balances), "not the nearest: {:?}", offered);
            }
        }
    }

    #[test]
    fn stated_rounds_fit_and_one_more_does_not(
        sites in prop::collection::vec(site(), 1..4), ln_rounds in 0.0f64..9.0
    ) {
        let (mut spec, datasets, balances) = build_plan(&sites, ln_rounds.exp() as u32);
        let plan = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
        let bottleneck = plan.bottleneck().unwrap();
        let most = bottleneck.rounds_that_fit;
        prop_assert_eq!(plan.admitted(), can_reserve(&spec, &datasets, &balances));
        spec.set(PlanParameter::Rounds, id(1), f64::from(most));
        prop_assert!(most == 0 || can_reserve(&spec, &datasets, &balances));
        spec.set(PlanParameter::Rounds, id(1), f64::from(most) + 1.0);
        prop_assert!(!can_reserve(&spec, &datasets, &balances) || most == super::price::MOST_ROUNDS);
        // The bottleneck is the account that refuses.
        let refusing = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
        let decides = refusing.find_quote(bottleneck.datasets[0]).unwrap();
        prop_assert!(!decides.project(0).fits || most == super::price::MOST_ROUNDS);
    }

    #[test]
    fn stated_remainder_is_usable(
        sites in prop::collection::vec(site(), 1..3), ln_rounds in 0.0f64..6.0
    ) {
        let (spec, datasets, balances) = build_plan(&sites, ln_rounds.exp() as u32);
        let plan = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
        for quote in &plan.quotes {
            let (rounds, jobs) = quote.count_further();
            let after = quote.project(0);
            let limit = quote.balance.budget().unwrap().epsilon().get();
            prop_assert!(quote.remaining().unwrap() + after.epsilon <= limit * (1.0 + 1e-15));
            prop_assert_eq!(after.fits, quote.remaining().unwrap() >= 0.0);
            prop_assert!((0.0..=1.0).contains(&quote.remaining_fraction()));
            if !after.fits {
                prop_assert_eq!((rounds, jobs), (0, 0));
                continue;
            }
            let releases = i64::try_from(quote.charges().next().unwrap().releases).unwrap();
            let change = |releases: i64| quote.project(releases).fits;
            prop_assert!(change(i64::try_from(rounds).unwrap()) && !change(i64::try_from(rounds).unwrap() + 1));
            let jobs = i64::try_from(jobs).unwrap();
            prop_assert!(change(jobs * releases) && !change((jobs + 1) * releases));
        }
    }

    #[test]
    fn curve_crosses_the_limit_at_the_fitting_rounds(site in site(), ln_rounds in 0.0f64..8.0) {
        let (spec, datasets, balances) = build_plan(&[site], ln_rounds.exp() as u32);
        let plan = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
        let quote = &plan.quotes[0];
        let curve = plan.curve(quote);
        let fit = plan.rounds_that_fit(quote);
        let limit = quote.balance.budget().unwrap().epsilon().get();
        prop_assert!(curve.rounds.len() == curve.epsilon.len() && curve.rounds.len() <= 29);
        prop_assert!(curve.rounds.is_sorted_by(|a, b| a < b) && curve.rounds.contains(&plan.rounds));
        prop_assert!(curve.epsilon.is_sorted_by(|a, b| a.unwrap_or(f64::INFINITY) <= b.unwrap_or(f64::INFINITY)));
        for (rounds, epsilon) in curve.rounds.iter().zip(&curve.epsilon).skip(1) {
            prop_assert_eq!(*rounds <= fit, epsilon.is_some_and(|epsilon| epsilon <= limit), "{} rounds", rounds);
        }
    }
}

#[test]
fn account_without_budget_gets_no_offer() {
    let site = TestSite { ln_epsilon: 2.0, spent: 0, rate: 0.1, noise: 1.0, version: false };
    let (spec, datasets, _) = build_plan(&[site], 40);
    assert_eq!(offers(&spec, &datasets, &AccountBalances::default()), Vec::new());
    let plan = PricedPlan::from_spec(&spec, &datasets, &AccountBalances::default()).unwrap();
    assert!(!plan.admitted() && !plan.budgeted());
    assert_eq!((plan.bottleneck().unwrap().rounds_that_fit, plan.quotes[0].remaining()), (0, None));
}

#[test]
fn a_refused_plan_is_offered_all_three_ways_out() {
    let site = TestSite { ln_epsilon: 2.0, spent: 0, rate: 0.1, noise: 1.0, version: false };
    let (spec, datasets, balances) = build_plan(&[site], 4000);
    let offered = offers(&spec, &datasets, &balances);
    assert_eq!(
        offered.iter().map(|o| o.knob).collect::<Vec<_>>(),
        [PlanParameter::Rounds, PlanParameter::Noise, PlanParameter::SamplingRate]
    );
    assert_eq!(offered[1].values[0].1, "spec.participants.1.noise.noise_multiplier");
    assert!(offered[0].sentence.contains("instead of 4000, with this noise."), "{}", offered[0].sentence);
    assert!(offered[1].sentence.starts_with("Noise z "), "{}", offered[1].sentence);
}

#[test]
fn three_digits_are_found_and_written_exactly() {
    for (value, digits) in
        [(0.1, 0.1), (0.123_4, 0.124), (1.0, 1.0), (0.001_000_000_5, 0.001_01), (0.999_6, 1.0), (0.009_99, 0.009_99)]
    {
        let actual = ThreeDigits::round_up(value).value();
        assert!((actual - digits).abs() < 1e-15, "{value}: {actual}");
    }
    assert_eq!(ThreeDigits::round_up(0.1).value().to_string(), "0.1");
}

/// Makes a site with room, and a plan of `rounds` rounds of 20 steps, with or without a selection between two rates.
fn build_step_plan(rounds: u32, selects: bool) -> (Spec, Vec<Dataset>, AccountBalances) {
    let site = TestSite { ln_epsilon: 2.0, spent: 0, rate: 0.05, noise: 2.0, version: false };
    let (mut spec, datasets, balances) = build_plan(&[site], rounds);
    spec.private.as_mut().unwrap().local_steps = 20;
    let selection = r#"{"shape":0,"stopping":0.2,"most_runs":12,"development":50,
        "candidates":[{"learning_rate":0.1},{"learning_rate":0.3}]}"#;
    spec.selection = selects.then(|| serde_json::from_str(selection).unwrap());
    assert_eq!(spec.check(&datasets), Vec::new());
    (spec, datasets, balances)
}

#[test]
fn rounds_of_local_steps_cost_all_their_steps() {
    let fit = |spec: &Spec, datasets: &[Dataset], balances: &AccountBalances| {
        let plan = PricedPlan::from_spec(spec, datasets, balances).unwrap();
        plan.bottleneck().unwrap().rounds_that_fit
    };
    let (mut spec, datasets, balances) = build_step_plan(10, false);
    spec.spare_releases = 0;
    let rounds = fit(&spec, &datasets, &balances);
    spec.private.as_mut().unwrap().local_steps = 1;
    let single = fit(&spec, &datasets, &balances);
    assert!(rounds > 0 && rounds == single / 20, "{rounds} of 20 steps, {single} of one");
    let (mut selecting, ..) = build_step_plan(10, true);
    selecting.spare_releases = 0;
    let best = fit(&selecting, &datasets, &balances);
    assert!(best > 0 && best < rounds, "{best} selected, {rounds} plain");
}

#[test]
fn least_noise_is_admitted_and_less_is_not() {
    for (rounds, selects) in [(200, false), (2, true)] {
        let (mut spec, datasets, balances) = build_step_plan(rounds, selects);
        spec.spare_releases = 0;
        let plan = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
        let party = PlanParty::from_charge(&datasets[1], spec.cost(&datasets[1]).unwrap(), &balances, Some(&plan));
        let least = party.least_noise.expect("some noise is enough");
        assert_eq!(party.epochs, Some(f64::from(rounds) * 20.0 * spec.participants[1].sampling_rate.get()));
        spec.set(PlanParameter::Noise, id(1), least);
        assert!(can_reserve(&spec, &datasets, &balances), "{selects}: {least} is too little");
        spec.set(PlanParameter::Noise, id(1), least - 0.001);
        assert!(!can_reserve(&spec, &datasets, &balances), "{selects}: {least} is not the least");
    }
}

#[test]
fn refused_step_plan_gets_offers_of_its_kinds() {
    for selects in [false, true] {
        let (spec, datasets, balances) = build_step_plan(4000, selects);
        let offered = offers(&spec, &datasets, &balances);
        let knobs: Vec<_> = offered.iter().map(|offered| offered.knob).collect();
        // The choice has a price of its own, which neither noise nor sampling removes.
        let all = if selects {
            vec![PlanParameter::Rounds]
        } else {
            vec![PlanParameter::Rounds, PlanParameter::Noise, PlanParameter::SamplingRate]
        };
        assert_eq!(knobs, all);
        for offered in offered {
            assert!(can_reserve(&offered.apply(&spec), &datasets, &balances), "not admitted: {offered:?}");
            for near in next_plans(&offered, &spec, &datasets) {
                assert!(!can_reserve(&near, &datasets, &balances), "not the nearest: {offered:?}");
            }
        }
    }
}

#[test]
fn largest_number_is_found_from_any_start() {
    for (threshold, near) in [(0, 1), (0, 90), (1, 1), (1, 64), (93, 89), (93, 400), (99, 3), (100, 100), (100, 7)] {
        assert_eq!(largest(near, 100, |number| number <= threshold), threshold, "from {near}");
    }
}

/// Under the Gaussian filter each payer's job is certified by itself, after those before it.
#[test]
fn gaussian_account_admits_the_rounds_that_the_plan_shows() {
    let site = |version| TestSite { ln_epsilon: 1.1, spent: 0, rate: 0.1, noise: 2.0, version };
    for sites in [vec![site(false)], vec![site(false), site(true)]] {
        let (mut spec, datasets, renyi) = build_plan(&sites, 40);
        let key = AccountKey::from_charge(&datasets[1], &spec.cost(&datasets[1]).unwrap());
        let budget = renyi.balance(key).unwrap().budget().copied().unwrap();
        let budget = Budget::new(budget.epsilon(), budget.delta(), GridKind::Gaussian).unwrap();
        let mut balances = AccountBalances::default();
        balances.add(key, Balance::new(Some(budget)));
        let plan = PricedPlan::from_spec(&spec, &datasets, &balances).unwrap();
        let fit = plan.rounds_that_fit(&plan.quotes[0]);
        let shown = PlanParty::from_charge(&datasets[1], spec.cost(&datasets[1]).unwrap(), &balances, Some(&plan));
        assert_eq!((shown.rounds_that_fit, shown.accounts[0].rounds_that_fit), (fit, Some(fit)));
        assert_eq!((shown.accounts[0].filter, shown.least_noise), (FilterKind::Gaussian, None));
        assert!(shown.curve.rounds.contains(&fit));
        let before = PricedPlan::from_spec(&spec, &datasets, &renyi).unwrap();
        assert!(fit > before.rounds_that_fit(&before.quotes[0]), "{fit} rounds are more than by the Rényi filter");
        spec.private.as_mut().unwrap().rounds = fit;
        assert!(can_reserve(&spec, &datasets, &balances), "{fit}");
        spec.private.as_mut().unwrap().rounds = fit + 1;
        assert!(!can_reserve(&spec, &datasets, &balances), "{fit}");
        let offered = offers(&spec, &datasets, &balances);
        assert_eq!(offered.iter().map(|offer| offer.knob).collect::<Vec<_>>(), [PlanParameter::Rounds]);
    }
}
