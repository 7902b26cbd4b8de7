//! Curves of every kind of event, on every grid, under every neighbouring relation, and their conversions.

use std::num::NonZeroU32;

use undertone_privacy::correlated::BandedEncoder;
use undertone_privacy::{Adjacency, Event, OrderGrid, convert, mechanism};

use crate::Facts;
use crate::seed::Seed;

const ROUNDS: u64 = 4;

pub(crate) fn record(facts: &mut Facts) {
    let grids = [
        ("standard", OrderGrid::standard()),
        ("research", OrderGrid::research()),
        ("reporting", OrderGrid::reporting()),
    ];
    let mut kinds = [false; KINDS];
    for round in 0..ROUNDS {
        let mut seed = Seed::new(1000 + round);
        for event in seed.events() {
            kinds[kind(&event)] = true;
            let (epsilon, delta) = (seed.epsilon(30.0), seed.delta());
            for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne] {
                for (kind, grid) in &grids {
                    let name = format!("{} {round}, {adjacency:?}, {kind} grid", event.name());
                    match mechanism::curve(&event, adjacency, grid) {
                        Ok(curve) => {
                            facts.curve(&name, &curve);
                            let there = convert::epsilon(&curve, delta).map(undertone_privacy::Epsilon::get);
                            facts.perhaps(&format!("{name}: epsilon at {delta:?}"), there);
                            let back = convert::delta(&curve, epsilon).map(undertone_privacy::Delta::get);
                            facts.perhaps(&format!("{name}: delta at {epsilon:?}"), back);
                            facts.number(&format!("{name}: ln delta"), convert::ln_delta(&curve, epsilon));
                        }
                        Err(_) => facts.perhaps(&format!("{name}: no price"), None),
                    }
                }
            }
        }
    }
    assert_eq!(kinds, [true; KINDS], "a kind of event is not compared");
    for (bands, steps) in [(2, 24), (5, 100), (8, 60)] {
        let whole = |count: u32| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let encoder = BandedEncoder::best(whole(bands), whole(steps));
        facts.number(&format!("norm of {bands} bands"), encoder.column_norm());
        facts.number(&format!("deviation of {bands} bands"), encoder.most_deviation());
        for weight in encoder.weights() {
            facts.number(&format!("weight of {bands} bands"), *weight as f64);
        }
    }
}

/// The number of kinds of events. A new kind does not compile until it is added here: add it to [`Seed::events`] too,
/// whose kinds are counted.
const KINDS: usize = 17;

const fn kind(event: &Event) -> usize {
    match event {
        Event::Gaussian { .. } => 0,
        Event::PoissonSampledGaussian { .. } => 1,
        Event::Laplace { .. } => 2,
        Event::Pure { .. } => 3,
        Event::Approximate { .. } => 4,
        Event::NonPrivate => 5,
        Event::Composed { .. } => 6,
        Event::Repeated { .. } => 7,
        Event::DiscreteGaussian { .. } => 8,
        Event::PoissonSampledDiscreteGaussian { .. } => 9,
        Event::DistributedDiscreteGaussian(_) => 10,
        Event::SampledThreshold { .. } => 11,
        Event::TruncatedLaplace { .. } => 12,
        Event::Selected { .. } => 13,
        Event::Substituted { .. } => 14,
        Event::PoissonSampledDistributedDiscreteGaussian { .. } => 15,
        Event::BandedGaussian { .. } => 16,
    }
}
