//! Tight ε of closed plans, from privacy-loss distributions, and Gaussian certificates of whole jobs.

use undertone_privacy::ledger::certify;
use undertone_privacy::pld::{Pair, Plan};
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, SamplingRate};

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

fn answers(facts: &mut Facts, name: &str, plan: &Plan, seed: &mut Seed) {
    let (delta, epsilon) = (Delta::new(seed.small(8)).expect("in range"), seed.epsilon(6.0));
    let tight = plan.epsilon(delta).ok().flatten();
    facts.perhaps(&format!("{name}: epsilon at {delta:?}"), tight.map(Epsilon::get));
    facts.perhaps(&format!("{name}: delta at {epsilon:?}"), plan.delta(epsilon).ok());
}
