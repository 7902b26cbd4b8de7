//! The vectors of the peer (`benches/peers/correlated_noise.py`), the encoder of a site, and the price.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range, and the vectors have all fields")]

use std::num::NonZeroU32;

use serde_json::Value;

use super::{BandedEncoder, MOST_BANDS, NoiseEncoder, WEIGHT_BITS, find_best_banded, propose_bands};
use crate::ledger::{Account, Budget, GridKind, JobCost, LedgerError, ReservationId};
use crate::mechanism;
use crate::pld::Plan;
use crate::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, OrderGrid, SamplingRate};

const VECTORS: &str = include_str!("../../../benches/peers/correlated_noise.json");

fn cases(name: &str) -> Vec<Value> {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors[name].as_array().unwrap().clone();
    assert!(cases.len() >= 3, "{name}");
    cases
}

fn number(case: &Value, key: &str) -> f64 {
    case[key].as_f64().unwrap()
}

fn count(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap() as usize
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// Makes the encoder of a vector.
fn encoder(case: &Value) -> NoiseEncoder {
    let steps = count(case, "steps");
    match case["kind"].as_str().unwrap() {
        "banded" => NoiseEncoder::banded(&numbers(&case["parameter"]), steps),
        "geometric" => NoiseEncoder::geometric(number(case, "parameter"), steps),
        kind => {
            assert_eq!(kind, "inverse_root");
            NoiseEncoder::inverse_root(count(case, "parameter"), steps)
        }
    }
}

/// Asserts that a bound is not below a value, and above it by a part in a million at most.
fn assert_covers(bound: f64, value: f64, what: &str) {
    assert!(bound >= value * (1.0 - 1e-13) && bound <= value * (1.0 + 1e-6), "{what}: {bound} and {value}");
}

#[test]
fn encoders_equal_dense_matrices_over_all_patterns() {
    for case in cases("encoders") {
        let encoder = encoder(&case);
        for (ours, theirs) in [(encoder.column(), &case["first_column"]), (encoder.inverse(), &case["inverse"])] {
            let theirs = numbers(theirs);
            assert_eq!(ours.len(), theirs.len());
            let is_close = |(one, other): (&f64, &f64)| (one - other).abs() <= 1e-9;
            assert!(ours.iter().zip(&theirs).all(is_close), "{case}");
        }
        assert_covers(encoder.column_norm(), number(&case, "column_norm"), "column norm");
        assert_covers(encoder.sensitivity(count(&case, "period")), number(&case, "sensitivity"), "sensitivity");
        let errors = encoder.errors();
        assert!((errors.root_mean_square / number(&case, "rms") - 1.0).abs() < 1e-9, "{case}");
        assert!((errors.last / number(&case, "last") - 1.0).abs() < 1e-9, "{case}");
    }
}

fn whole(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

/// Returns the event of T steps with b bands, for a share q of all units in a batch.
fn banded(rate: f64, z: f64, bands: u32, steps: u32) -> Event {
    let sampling_rate = SamplingRate::new(rate).unwrap().for_turns(whole(bands)).unwrap();
    let noise_multiplier = NoiseMultiplier::new(z).unwrap();
    Event::BandedGaussian { sampling_rate, noise_multiplier, bands: whole(bands), releases: whole(steps) }
}

#[test]
fn prices_equal_those_of_dp_accounting() {
    for case in cases("prices") {
        let count = |key: &str| u32::try_from(count(&case, key)).unwrap();
        let event = banded(number(&case, "rate"), number(&case, "noise_multiplier"), count("bands"), count("steps"));
        let plan = Plan::of(&event, Adjacency::ZeroOut);
        let epsilon = plan.epsilon(Delta::new(number(&case, "delta")).unwrap()).unwrap().unwrap().get();
        let theirs = number(&case, "epsilon");
        assert!((epsilon / theirs - 1.0).abs() < 1e-3, "{epsilon} and {theirs}");
    }
}

#[test]
fn price_is_that_of_the_turns_at_every_order() {
    let grid = OrderGrid::reporting();
    for (bands, steps, turns) in [(4, 100, 25), (8, 401, 51), (20, 20, 1)] {
        let event = banded(0.05, 2.1, bands, steps);
        let Event::BandedGaussian { sampling_rate, noise_multiplier, .. } = event else { panic!("{event:?}") };
        let turn = Event::PoissonSampledGaussian { sampling_rate, noise_multiplier };
        for adjacency in [Adjacency::ZeroOut, Adjacency::AddRemove, Adjacency::ReplaceOne] {
            let curve = mechanism::curve(&event, adjacency, &grid).unwrap();
            assert_eq!(curve, mechanism::curve(&turn.clone().times(turns), adjacency, &grid).unwrap());
            let shorter = mechanism::curve(&event.with_planned_releases(u64::from(steps) - 1), adjacency, &grid);
            let is_less = |(one, other): ((_, crate::Fixed), (_, crate::Fixed))| one.1 <= other.1;
            assert!(shorter.unwrap().losses().zip(curve.losses()).all(is_less), "a prefix costs at most the whole");
        }
    }
}

#[test]
fn rate_of_a_turn_is_exact_and_at_most_one() {
    let rate = SamplingRate::new(0.1).unwrap();
    assert_eq!(rate.for_turns(whole(3)).map(SamplingRate::numerator), Some(3 * rate.numerator()));
    assert_eq!(SamplingRate::new(0.25).unwrap().for_turns(whole(4)), Some(SamplingRate::ONE));
    assert_eq!(SamplingRate::new(0.25).unwrap().for_turns(whole(5)), None);
    // 0.05 is not dyadic, and its rate is rounded up.
    assert_eq!(SamplingRate::new(0.05).unwrap().for_turns(whole(20)), Some(SamplingRate::ONE));
    assert_eq!(SamplingRate::new(0.050_001).unwrap().for_turns(whole(20)), None);
    assert_eq!(SamplingRate::ONE.for_turns(whole(2)), None);
}

#[test]
fn weights_of_a_site_are_the_best_bands_in_whole_units() {
    for (bands, steps) in [(1, 9), (2, 24), (5, 100), (8, 600), (32, 40), (40, 16)] {
        let encoder = BandedEncoder::best(whole(bands), whole(steps));
        let best = find_best_banded(bands.min(MOST_BANDS) as usize, steps as usize);
        let unit = f64::from(1_u32 << WEIGHT_BITS);
        assert_eq!(encoder.weights().len() as u32 + 1, bands.min(MOST_BANDS).min(steps));
        for (weight, value) in encoder.weights().iter().zip(&best.column()[1..]) {
            assert!((*weight as f64 / unit - value / best.column()[0]).abs() <= 0.5 / unit, "{weight}");
        }
        let squares: f64 = encoder.weights().iter().map(|weight| (*weight as f64 / unit).powi(2)).sum();
        assert!(encoder.column_norm() >= (1.0 + squares).sqrt() && encoder.column_norm() < 3.0);
        let exact = best.column_norm() / best.column()[0] * best.errors().root_mean_square * best.column()[0];
        let ours = encoder.column_norm() * encoder.errors(whole(steps)).root_mean_square;
        assert!((ours / exact - 1.0).abs() < 1e-5, "{ours} and {exact}");
        assert!((encoder.step_deviation(1) - 1.0).abs() < 1e-15);
        assert!(encoder.step_deviation(2) <= encoder.most_deviation());
    }
}

/// Every column norm of the dense matrix is at most that of the first, and the shift of one unit by rounded noise is at
/// most the stated sensitivity.
#[test]
fn sensitivity_covers_rounded_shifts() {
    let encoder = BandedEncoder::best(whole(4), whole(30));
    let half = 1_i128 << (WEIGHT_BITS - 1);
    let round = |value: i128| (value + half) >> WEIGHT_BITS;
    let contribution: Vec<i64> = (0..50).map(|n| (n * 37 % 101) - 50).collect();
    let radius = contribution.iter().map(|value| (value * value) as f64).sum::<f64>().sqrt();
    let mut worst = 0.0_f64;
    for base in 0..200_i128 {
        let mut squares = contribution.iter().map(|value| (value * value) as f64).sum::<f64>();
        for weight in encoder.weights() {
            let earlier = |n: usize| i128::from(*weight) * (base * 1_000_003 + n as i128 * 7919);
            squares += contribution
                .iter()
                .enumerate()
                .map(|(n, value)| {
                    let moved = earlier(n) - i128::from(*weight) * i128::from(*value);
                    ((round(moved) - round(earlier(n))) as f64).powi(2)
                })
                .sum::<f64>();
        }
        worst = worst.max(squares.sqrt());
    }
    let bound = encoder.sensitivity(radius.ceil() as u64, contribution.len());
    assert!(worst <= bound && worst > 0.9 * radius * encoder.column_norm(), "{worst} {bound}");
}

#[test]
fn proposed_bands_lower_the_error_at_the_same_epsilon() {
    let rate = |value| SamplingRate::new(value).unwrap();
    let z = |value| NoiseMultiplier::new(value).unwrap();
    let proposal = propose_bands(rate(0.1), z(1.0), whole(100)).unwrap();
    assert!(proposal.error < 0.95 && proposal.bands.get() > 1, "{proposal:?}");
    let epsilon = |event: Event| {
        let curve = mechanism::curve(&event, Adjacency::ZeroOut, &OrderGrid::reporting()).unwrap();
        crate::convert::epsilon(&curve, Delta::new(1e-6).unwrap()).unwrap().get()
    };
    let plain = Event::PoissonSampledGaussian { sampling_rate: rate(0.1), noise_multiplier: z(1.0) }.times(100);
    let bands = banded(0.1, proposal.noise_multiplier.get(), proposal.bands.get(), 100);
    let (plain, bands) = (epsilon(plain), epsilon(bands));
    assert!(bands <= plain && bands > 0.95 * plain, "{bands} and {plain}");
    assert_eq!(propose_bands(SamplingRate::ONE, z(1.0), whole(100)), None);
    assert_eq!(propose_bands(rate(0.1), z(1.0), whole(1)), None);
}

fn account(grid: GridKind) -> Account {
    let epsilon = Epsilon::new(8.0).unwrap();
    Account::new(Some(Budget::new(epsilon, Delta::new(1e-6).unwrap(), grid).unwrap()))
}

#[test]
fn first_release_is_charged_for_all_of_them() {
    let event = banded(0.05, 2.0, 4, 10);
    for grid in [GridKind::Standard, GridKind::Gaussian] {
        let mut account = account(grid);
        let cost = account.balance().job_cost(&event, 10, Adjacency::ZeroOut).unwrap();
        let JobCost::Whole(whole) = &cost else { panic!("{cost:?}") };
        account.reserve_job(ReservationId(1), &cost, 10).unwrap();
        account.commit(ReservationId(1)).unwrap();
        assert_eq!(account.balance().spent(), whole);
        (1..4).for_each(|_| account.commit(ReservationId(1)).unwrap());
        // Six releases are never made: nothing is returned.
        account.settle(ReservationId(1)).unwrap();
        assert_eq!((account.balance().spent(), account.balance().reserved().is_zero()), (whole, true));
        let certificate = cost.certificate(10);
        let stated = JobCost::from_row(&event, 10, Adjacency::ZeroOut, account.balance().grid(), certificate.as_ref());
        assert_eq!(stated.as_ref(), Ok(&cost));
        assert!(certificate.is_none_or(|certificate| certificate.verify(&event, Adjacency::ZeroOut).is_ok()));
        // Receipts of a job whose reservation is not known are charged alike, for any number of them.
        let unplanned = account.balance().cost_of_unplanned(&event, 3, Adjacency::ZeroOut).unwrap();
        assert!(matches!(unplanned, JobCost::Whole(_)));
        assert!(account.balance().job_cost(&event, 11, Adjacency::ZeroOut).is_err(), "more than the mechanism has");
    }
}

#[test]
fn whole_mechanism_that_is_not_released_is_returned() {
    let event = banded(0.05, 2.0, 4, 10);
    let mut account = account(GridKind::Standard);
    let cost = account.balance().job_cost(&event, 10, Adjacency::ZeroOut).unwrap();
    account.reserve_job(ReservationId(1), &cost, 10).unwrap();
    account.settle(ReservationId(1)).unwrap();
    assert!(account.balance().spent().is_zero() && account.balance().reserved().is_zero());
    assert_eq!(account.commit(ReservationId(1)), Err(LedgerError::Settled(ReservationId(1))));
}

#[test]
fn best_bands_are_those_of_a_general_optimizer() {
    for case in cases("bands") {
        let encoder = find_best_banded(count(&case, "bands"), count(&case, "steps"));
        let product = encoder.column_norm() * encoder.errors().root_mean_square;
        assert!((product / number(&case, "product") - 1.0).abs() < 1e-6, "{product}: {case}");
    }
}

#[test]
#[should_panic(expected = "falling values")]
fn closed_form_refuses_an_encoder_that_rises() {
    NoiseEncoder::banded(&[1.0, 1.5], 4).sensitivity(2);
}
