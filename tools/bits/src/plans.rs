//! Tight ε of closed plans, from privacy-loss distributions, and Gaussian certificates of whole jobs, with selections.

use std::num::NonZeroU16;

use undertone_privacy::ledger::certify;
use undertone_privacy::pld::{Pair, Plan};
use undertone_privacy::selection::Runs;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, MeanRuns, RunShape, SamplingRate, StoppingRate};

use crate::Facts;
use crate::seed::Seed;

pub(crate) fn record(facts: &mut Facts) {
    for round in 0..8 {
        let mut seed = Seed::new(3000 + round);
        let parts: Vec<Event> = (0..=seed.below(4)).map(|_| seed.sampled().times(1 + seed.below(300))).collect();
        let mut events = parts.clone();
        if round % 2 == 1 {
            events.push(Event::Laplace { epsilon: seed.epsilon(0.5) });
            events.push(Event::Gaussian { noise_multiplier: seed.noise(3.0, 20.0) });
            let delta = Delta::new(1e-9).expect("in range");
            events.push(Event::Approximate { epsilon: seed.epsilon(0.3), delta });
        }
        let plan = Event::Composed { events };
        for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
            answers(facts, &format!("plan {round}, {adjacency:?}"), &Plan::of(&plan, adjacency), &mut seed);
        }
    }
    certificates(facts);
    selections(facts);
    let mut group = Plan::new();
    group.add_pair(Pair::sampled_gaussian_group(0.02, 1.5, 4), 200);
    answers(facts, "a group of four", &group, &mut Seed::new(3100));
}

/// Certifies jobs as an account with the Gaussian filter charges them.
fn certificates(facts: &mut Facts) {
    let mut seed = Seed::new(3200);
    let delta = Delta::new(1e-9).expect("in range");
    let mut quiet = || Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(seed.uniform(0.01, 0.2)).expect("a rate"),
        noise_multiplier: seed.noise(0.8, 3.0),
    };
    let events = [
        quiet(),
        quiet(),
        Event::Laplace { epsilon: seed.epsilon(0.5) },
        Event::Gaussian { noise_multiplier: seed.noise(3.0, 20.0) },
        Event::Approximate { epsilon: seed.epsilon(0.3), delta },
    ];
    for event in events {
        let (releases, side) = (1 + seed.below(60), Delta::new(1e-6 * seed.uniform(0.1, 1.0)).expect("in range"));
        for adjacency in [Adjacency::ZeroOut, Adjacency::ReplaceOne] {
            let name = format!("certificate of {} times {releases}, {adjacency:?}, side {side:?}", event.name());
            match certify(&event, releases, adjacency, side) {
                Ok(cost) => facts.curve(&name, &cost),
                Err(_) => facts.perhaps(&name, None),
            }
        }
    }
}

/// Prices rounds of private selections by loss distributions, as reports and the Gaussian filter do.
fn selections(facts: &mut Facts) {
    let mut seed = Seed::new(3300);
    let stopping = StoppingRate::new(seed.uniform(0.1, 0.5)).expect("inside (0, 1)");
    let shape = RunShape::new(seed.uniform(-0.5, 1.0)).expect("above -1");
    let most = NonZeroU16::new(12).expect("at least 1");
    let numbers = [
        Runs::CappedNegativeBinomial { shape, stopping, most },
        Runs::TruncatedNegativeBinomial { shape, stopping },
        Runs::Poisson { mean: MeanRuns::new(seed.uniform(1.0, 6.0)).expect("at least 1") },
    ];
    for runs in numbers {
        let run = Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(seed.uniform(0.1, 0.3)).expect("a rate"),
            noise_multiplier: seed.noise(1.0, 3.0),
        };
        let (best, count) = (Event::Selected { of: Box::new(run), runs }, 1 + seed.below(20));
        let name = format!("{count} rounds of the best of {runs:?}");
        answers(facts, &name, &Plan::of(&best.clone().times(count), Adjacency::ZeroOut), &mut seed);
        match certify(&best, count, Adjacency::ZeroOut, Delta::new(2.5e-7).expect("in range")) {
            Ok(cost) => facts.curve(&format!("{name}: certificate"), &cost),
            Err(_) => facts.perhaps(&format!("{name}: certificate"), None),
        }
    }
}

fn answers(facts: &mut Facts, name: &str, plan: &Plan, seed: &mut Seed) {
    let (delta, epsilon) = (Delta::new(seed.small(8)).expect("in range"), seed.epsilon(6.0));
    let tight = plan.epsilon(delta).ok().flatten();
    facts.perhaps(&format!("{name}: epsilon at {delta:?}"), tight.map(Epsilon::get));
    facts.perhaps(&format!("{name}: delta at {epsilon:?}"), plan.delta(epsilon).ok());
}
