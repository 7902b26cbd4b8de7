//! Curves of every kind of event, on every grid, under every neighbouring relation, and what they convert to.

use undertone_privacy::{Adjacency, Event, OrderGrid, convert, mechanism};

use crate::Facts;
use crate::seed::Seed;

const ROUNDS: u64 = 6;

pub(crate) fn record(facts: &mut Facts) {
    let grids = [
        ("standard", OrderGrid::standard()),
        ("research", OrderGrid::research()),
        ("reporting", OrderGrid::reporting()),
    ];
    for round in 0..ROUNDS {
        let mut seed = Seed::new(1000 + round);
        for event in seed.events() {
            let (epsilon, delta) = (seed.epsilon(30.0), seed.delta());
            for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne] {
                for (kind, grid) in &grids {
                    let name = format!("{} {round}, {adjacency:?}, {kind} grid", kind_of(&event));
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
}

/// The kind's name: the first word of what it looks like.
fn kind_of(event: &Event) -> String {
    format!("{event:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}
