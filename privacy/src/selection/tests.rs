//! The selection with a base of two outcomes: the distribution of the best is exact, and so are its divergences.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::num::NonZeroU16;

use proptest::prelude::*;

use super::{Runs, SelectionError, curve, pure};
use crate::curve::{Curve, OrderGrid};
use crate::mechanism;
use crate::unit::{MeanRuns, RunShape, StoppingRate};

fn negative_binomial(shape: f64, stopping: f64) -> Runs {
    let shape = RunShape::new(shape).unwrap();
    let stopping = StoppingRate::new(stopping).unwrap();
    Runs::TruncatedNegativeBinomial { shape, stopping }
}

fn capped(shape: f64, stopping: f64, most: u16) -> Runs {
    let shape = RunShape::new(shape).unwrap();
    let stopping = StoppingRate::new(stopping).unwrap();
    Runs::CappedNegativeBinomial { shape, stopping, most: NonZeroU16::new(most).unwrap() }
}

fn poisson(mean: f64) -> Runs {
    Runs::Poisson { mean: MeanRuns::new(mean).unwrap() }
}

fn runs() -> impl Strategy<Value = Runs> {
    prop_oneof![
        (prop_oneof![Just(0.0), Just(1.0), -0.9f64..4.0], 0.03f64..0.9)
            .prop_map(|(shape, stopping)| negative_binomial(shape, stopping)),
        (prop_oneof![Just(0.0), Just(1.0), -0.9f64..4.0], 0.03f64..0.9, 1u16..60)
            .prop_map(|(shape, stopping, most)| capped(shape, stopping, most)),
        (1.0f64..40.0).prop_map(poisson),
    ]
}

/// Returns the probabilities of (no run, the worse outcome, the better one) when each run is better with probability
/// `better`.
fn best(runs: Runs, better: f64) -> [f64; 3] {
    let none = runs.probability(0);
    // The best is the worse one when all runs are.
    let worse: f64 = (1..2000).map(|k| runs.probability(k) * (1.0 - better).powi(k as i32)).sum();
    [none, worse, 1.0 - none - worse]
}

/// Returns the Rényi divergence of order α of two finite distributions.
fn renyi(p: &[f64], q: &[f64], order: f64) -> f64 {
    let term = |(p, q): (&f64, &f64)| order * p.ln() + (1.0 - order) * q.ln();
    let terms: Vec<f64> = p.iter().zip(q).filter(|(p, _)| **p > 0.0).map(term).collect();
    let greatest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = terms.iter().map(|term| (term - greatest).exp()).sum();
    (greatest + sum.ln()) / (order - 1.0)
}

proptest! {
    #[test]
    fn best_of_runs_loses_at_most_the_charge(runs in runs(), epsilon in 0.05f64..3.0) {
        let grid = OrderGrid::reporting();
        let base = Curve::evaluated(&grid, |order| mechanism::pure(epsilon, order.get()));
        let charge = curve(&base, runs).unwrap();
        let p = 1.0 / (1.0 + libm::exp(-epsilon));
        let a = best(runs, p);
        let b = best(runs, 1.0 - p);
        for (order, loss) in charge.losses().filter(|(order, _)| order.get() <= 64.0) {
            for (p, q) in [(a, b), (b, a)] {
                let lost = renyi(&p, &q, order.get());
                prop_assert!(lost <= loss.to_f64_up() + 1e-6, "{:?} {}: {} {}", runs, order.get(), lost, loss.to_f64_up());
            }
        }
        if let Runs::TruncatedNegativeBinomial { shape, .. } | Runs::CappedNegativeBinomial { shape, .. } = runs {
            for (p, q) in a.iter().zip(b).filter(|(p, _)| **p > 0.0) {
                prop_assert!((p / q).ln().abs() <= pure(epsilon, shape) + runs.cap() + 1e-6);
            }
        }
    }

    #[test]
    fn selection_cost_rises_with_base_cost(runs in runs(), a in 0.001f64..2.0, b in 0.001f64..2.0) {
        let grid = OrderGrid::reporting();
        let of = |rho: f64| curve(&Curve::evaluated(&grid, |order| rho * order.get()), runs).unwrap();
        let less = of(a.min(b));
        let more = of(a.max(b));
        prop_assert!(less.losses().zip(more.losses()).all(|((_, less), (_, more))| less <= more));
        // A selection shows a run: it never costs less than one, and never less at a higher order.
        let base = Curve::evaluated(&grid, |order| a.min(b) * order.get());
        let losses: Vec<_> = less.losses().map(|(_, loss)| loss).collect();
        prop_assert!(losses.windows(2).all(|pair| pair[0] <= pair[1]));
        prop_assert!(base.losses().zip(&losses).all(|((_, base), loss)| base <= *loss));
    }

    #[test]
    fn mean_runs_match_probabilities(runs in runs()) {
        let all: f64 = (0..3000).map(|k| runs.probability(k)).sum();
        let mean: f64 = (0..3000).map(|k| f64::from(k) * runs.probability(k)).sum();
        prop_assert!((all - 1.0).abs() < 1e-9, "{}", all);
        prop_assert!((runs.mean() / mean - 1.0).abs() < 1e-9, "{} {}", runs.mean(), mean);
    }
}

#[test]
fn tiny_shape_equals_logarithmic() {
    let near = negative_binomial(1e-14, 0.2);
    let at = negative_binomial(0.0, 0.2);
    assert!((near.mean() / at.mean() - 1.0).abs() < 1e-12);
    assert!((near.probability(7) / at.probability(7) - 1.0).abs() < 1e-12);
}

#[test]
fn far_cap_is_free_and_near_cap_costs_the_tail() {
    let base = Curve::evaluated(&OrderGrid::reporting(), |order| 0.01 * order.get());
    let whole = curve(&base, negative_binomial(1.0, 0.1)).unwrap();
    let far = curve(&base, capped(1.0, 0.1, 1000)).unwrap();
    assert!(
        whole.losses().zip(far.losses()).all(|((_, a), (_, b))| (b.to_f64_up() / a.to_f64_up() - 1.0).abs() < 1e-9)
    );
    // Geometric: E[K; K > m] / E[K] = (1 + mγ)(1−γ)^m.
    let near = capped(1.0, 0.1, 20);
    let tail = 3.0 * 0.9f64.powi(20);
    assert!((near.cap() + (1.0 - tail).ln()).abs() < 1e-12, "{}", near.cap());
    assert!(near.mean() < 10.0 && near.probability(21) == 0.0);
    assert!((capped(1.0, 0.1, 1).mean() - 1.0).abs() < 1e-15, "one run is one run");
}

#[test]
fn base_with_side_delta_has_no_price() {
    let base = Curve::zero(&OrderGrid::standard()).with_side_delta(1e-9);
    assert_eq!(curve(&base, poisson(3.0)), Err(SelectionError::SideDelta));
}

#[test]
fn infinite_base_gives_infinite_selection() {
    let base = Curve::infinite(&OrderGrid::standard());
    for runs in [poisson(3.0), negative_binomial(1.0, 0.1)] {
        assert!(curve(&base, runs).unwrap().is_infinite());
    }
}
