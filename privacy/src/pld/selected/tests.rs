//! Selections of finite mechanisms, whose best outcome has an exact distribution.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::num::NonZeroU16;

use proptest::prelude::*;

use crate::pld::{Pair, Plan};
use crate::selection::Runs;
use crate::unit::{Delta, Epsilon, MeanRuns, NoiseMultiplier, RunShape, SamplingRate, StoppingRate};
use crate::{Adjacency, Event, OrderGrid, convert, mechanism};

fn negative_binomial(shape: f64, stopping: f64) -> Runs {
    let shape = RunShape::new(shape).unwrap();
    Runs::TruncatedNegativeBinomial { shape, stopping: StoppingRate::new(stopping).unwrap() }
}

fn capped(shape: f64, stopping: f64, most: u16) -> Runs {
    let shape = RunShape::new(shape).unwrap();
    let stopping = StoppingRate::new(stopping).unwrap();
    Runs::CappedNegativeBinomial { shape, stopping, most: NonZeroU16::new(most).unwrap() }
}

/// A run with finitely many outcomes: its probabilities under both neighbours, and its score.
#[derive(Debug, Clone)]
struct FiniteRun {
    outcomes: Vec<(f64, f64)>,
    scores: Vec<u8>,
}

impl FiniteRun {
    fn pair(&self) -> Pair {
        Pair::finite(&self.outcomes)
    }

    /// Returns the probabilities of each best outcome under both neighbours, and of no run as the last.
    fn best(&self, runs: Runs) -> Vec<(f64, f64)> {
        let none = runs.probability(0);
        let power = |u: f64| -> f64 { (0..400).map(|k| runs.probability(k) * u.powi(k as i32)).sum() };
        let side = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            let sum = |kept: &dyn Fn(u8) -> bool| -> f64 {
                let both = self.outcomes.iter().zip(&self.scores);
                both.filter(|(_, score)| kept(**score)).map(|(outcome, _)| of(outcome)).sum()
            };
            let both = self.outcomes.iter().zip(&self.scores);
            let one = |(outcome, score): (&(f64, f64), &u8)| {
                let (below, level) = (sum(&|other| other < *score), sum(&|other| other == *score));
                // A coin decides between equal scores.
                if level == 0.0 { 0.0 } else { (power(below + level) - power(below)) * of(outcome) / level }
            };
            both.map(one).chain([none]).collect()
        };
        side(|outcome| outcome.0).into_iter().zip(side(|outcome| outcome.1)).collect()
    }
}

/// Returns Σ max(p − e^ε q, 0).
fn hockey_stick(outcomes: &[(f64, f64)], epsilon: f64) -> f64 {
    outcomes.iter().map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
}

fn reversed(outcomes: &[(f64, f64)]) -> Vec<(f64, f64)> {
    outcomes.iter().map(|&(p, q)| (q, p)).collect()
}

fn finite_run() -> impl Strategy<Value = FiniteRun> {
    let outcome = (0.05f64..1.0, -1.5f64..1.5, 0u8..4, 0u8..12);
    prop::collection::vec(outcome, 2..6).prop_map(|parts| {
        // Here and there an outcome, but not the first, is impossible under one neighbour.
        let possible =
            |(i, part): (usize, &(f64, f64, u8, u8))| if i > 0 && part.3 == 0 { 0.0 } else { part.0 * part.1.exp() };
        let q: Vec<f64> = parts.iter().enumerate().map(possible).collect();
        let (p_sum, q_sum): (f64, f64) = (parts.iter().map(|part| part.0).sum(), q.iter().sum());
        let outcomes = parts.iter().zip(&q).map(|(part, q)| (part.0 / p_sum, q / q_sum)).collect();
        FiniteRun { outcomes, scores: parts.iter().map(|part| part.2).collect() }
    })
}

fn few_runs() -> impl Strategy<Value = Runs> {
    prop_oneof![
        (prop_oneof![Just(0.0), Just(1.0), -0.9f64..3.0], 0.6f64..0.9)
            .prop_map(|(shape, stopping)| negative_binomial(shape, stopping)),
        (prop_oneof![Just(0.0), Just(1.0), -0.9f64..3.0], 0.02f64..0.9, 1u16..7)
            .prop_map(|(shape, stopping, most)| capped(shape, stopping, most)),
        (1.0f64..2.0).prop_map(|mean| Runs::Poisson { mean: MeanRuns::new(mean).unwrap() }),
    ]
}

const EPSILONS: [f64; 11] = [-2.0, -0.7, -0.1, 0.0, 0.05, 0.3, 0.8, 1.3, 2.0, 3.5, 6.0];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn best_of_finite_runs_is_below_its_pair(run in finite_run(), runs in few_runs()) {
        let pair = Pair::selected(&[(run.pair(), 1)], runs).unwrap();
        let best = run.best(runs);
        for epsilon in EPSILONS {
            for (direction, best) in [&best, &reversed(&best)].into_iter().enumerate() {
                let exact = hockey_stick(best, epsilon);
                let loss = &pair.directions[direction];
                let bound = loss.profile(epsilon) + loss.infinite();
                prop_assert!(exact <= bound + 1e-12, "{:?} {:?} {} {}: {} {}", run, runs, epsilon, direction, exact, bound);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn two_selections_are_below_their_composition(
        a in finite_run(), b in finite_run(), first in few_runs(), second in few_runs()
    ) {
        let mut plan = Plan::new();
        plan.add_pair(Pair::selected(&[(a.pair(), 1)], first).unwrap(), 1);
        plan.add_pair(Pair::selected(&[(b.pair(), 1)], second).unwrap(), 1);
        let (a, b) = (a.best(first), b.best(second));
        let both: Vec<(f64, f64)> = a.iter().flat_map(|x| b.iter().map(|y| (x.0 * y.0, x.1 * y.1))).collect();
        for epsilon in [0.2, 1.5] {
            let exact = hockey_stick(&both, epsilon).max(hockey_stick(&reversed(&both), epsilon));
            let bound = plan.delta(Epsilon::new(epsilon).unwrap()).unwrap();
            prop_assert!(exact <= bound + 1e-12, "{:?} {:?} {}: {} {}", first, second, epsilon, exact, bound);
        }
    }
}

/// Returns ε at 10⁻⁶ of one run, of the best by its Rényi curve, and of the best by its pair.
fn epsilons(run: &Event, runs: Runs, count: u64) -> [f64; 3] {
    let delta = Delta::new(1e-6).unwrap();
    let tight = |event: &Event| Plan::of(event, Adjacency::ZeroOut).epsilon(delta).unwrap().unwrap().get();
    let best = Event::Selected { of: Box::new(run.clone()), runs }.times(count);
    let curve = mechanism::curve(&best, Adjacency::ZeroOut, &OrderGrid::reporting()).unwrap();
    [tight(run), convert::epsilon(&curve, delta).unwrap().get(), tight(&best)]
}

#[test]
fn pair_is_tighter_than_renyi_curve() {
    let gaussian = |z: f64| Event::Gaussian { noise_multiplier: NoiseMultiplier::new(z).unwrap() };
    let poisson = Runs::Poisson { mean: MeanRuns::new(10.0).unwrap() };
    for (z, runs, most) in [
        (1.0, negative_binomial(0.0, 0.1), 0.86),
        (2.0, negative_binomial(1.0, 0.01), 0.79),
        (4.0, negative_binomial(-0.5, 0.01), 0.87),
        (2.0, capped(0.0, 0.1, 20), 0.79),
        (2.0, poisson, 0.88),
    ] {
        let [one, renyi, tight] = epsilons(&gaussian(z), runs, 1);
        assert!(tight < most * renyi && tight > one, "{z} {runs:?}: {one} {renyi} {tight}");
    }
    // One run is one run.
    let [one, _, tight] = epsilons(&gaussian(2.0), capped(1.0, 0.1, 1), 1);
    assert!(tight >= one && tight < 1.01 * one, "{one} {tight}");
}

/// Many rounds, of which each loses little: there all runs together cost less than the constant.
#[test]
fn rounds_of_selections_cost_a_fraction_of_renyi_sum() {
    let run = Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(0.05).unwrap(),
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
    };
    let [one, renyi, tight] = epsilons(&run, capped(0.0, 0.1, 20), 100);
    assert!(renyi > 80.0 && tight < 7.0 && tight > one, "{one} {renyi} {tight}");
}

#[test]
fn selection_among_releases_with_a_side_mass_has_a_pair() {
    let run = Event::Approximate { epsilon: Epsilon::new(0.5).unwrap(), delta: Delta::new(1e-9).unwrap() };
    let best = Event::Selected { of: Box::new(run), runs: negative_binomial(1.0, 0.1) };
    let plan = Plan::of(&best, Adjacency::ZeroOut);
    // Three times ε (Liu and Talwar 2019), and E[K] = 10 times δ, with what the grid adds.
    let delta = plan.delta(Epsilon::new(1.55).unwrap()).unwrap();
    assert!((0.999e-8..1.2e-8).contains(&delta), "{delta:e}");
    assert!(plan.delta(Epsilon::new(1.0).unwrap()).unwrap() > 1e-4);
}
