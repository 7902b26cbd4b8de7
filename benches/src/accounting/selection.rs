//! The price of private selections: by Rényi curves, and by loss distributions; and the rounds of a selection that a ledger
//! admits.

use std::num::NonZeroU16;

use serde_json::json;
use undertone_bits::work::DELTA;
use undertone_privacy::ledger::{Balance, Budget, FilterKind, ReservationId};
use undertone_privacy::pld::Plan;
use undertone_privacy::selection::Runs;
use undertone_privacy::{
    Adjacency, Delta, Epsilon, Event, NoiseMultiplier, OrderGrid, RunShape, SamplingRate, StoppingRate, convert,
    mechanism,
};

use crate::report::{Outcome, Report};

/// Noise multipliers of one Gaussian run.
const NOISES: [f64; 4] = [1.0, 2.0, 4.0, 10.0];
/// η and γ.
const NUMBERS: [(f64, f64); 5] = [(1.0, 0.1), (1.0, 0.01), (0.0, 0.1), (0.0, 0.01), (-0.5, 0.01)];
/// Jobs: q and z of a round, η, γ and the bound of its number of runs, and the budget's ε.
const JOBS: [(f64, f64, f64, f64, u16, f64); 4] = [
    (0.05, 1.0, 0.0, 0.1, 20, 4.0),
    (0.05, 1.0, 0.0, 0.1, 20, 8.0),
    (0.1, 1.5, 0.0, 0.1, 20, 4.0),
    (0.05, 2.0, 1.0, 0.2, 20, 4.0),
];
/// More rounds than a job has.
const MOST_ROUNDS: u64 = 1 << 16;

pub(super) fn measure(report: &mut Report) -> Outcome {
    let delta = Delta::new(DELTA)?;
    for z in NOISES {
        for (shape, stopping) in NUMBERS {
            let runs = Runs::TruncatedNegativeBinomial {
                shape: RunShape::new(shape)?,
                stopping: StoppingRate::new(stopping)?,
            };
            let run = Event::Gaussian { noise_multiplier: NoiseMultiplier::new(z)? };
            let best = Event::Selected { of: Box::new(run.clone()), runs };
            report.line(json!({
                "measurement": "private_selection", "delta": DELTA, "noise_multiplier": z,
                "shape": shape, "stopping": stopping, "mean_runs": runs.mean(),
                "epsilon_run": tight(&run, delta), "epsilon_renyi": renyi(&best, delta)?, "epsilon_tight": tight(&best, delta),
            }))?;
        }
    }
    for (q, z, shape, stopping, most, epsilon) in JOBS {
        let run = Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(q)?,
            noise_multiplier: NoiseMultiplier::new(z)?,
        };
        let runs = Runs::CappedNegativeBinomial {
            shape: RunShape::new(shape)?,
            stopping: StoppingRate::new(stopping)?,
            most: NonZeroU16::new(most).ok_or("no run")?,
        };
        let best = Event::Selected { of: Box::new(run), runs };
        let limit = Epsilon::new(epsilon)?;
        let admitted = |filter: FilterKind| -> Result<u64, Box<dyn std::error::Error>> {
            let empty = Balance::new(Some(Budget::new(limit, delta, filter.grid(limit))?));
            Ok(most_rounds(|rounds| {
                let cost = empty.job_cost(&best, rounds, Adjacency::ZeroOut);
                cost.is_ok_and(|cost| empty.clone().reserve_job(ReservationId(1), &cost, rounds).is_ok())
            }))
        };
        let closed =
            most_rounds(|rounds| tight(&best.clone().times(rounds), delta).is_some_and(|tight| tight <= epsilon));
        report.line(json!({
            "measurement": "selection_rounds", "delta": DELTA, "sampling_rate": q, "noise_multiplier": z,
            "shape": shape, "stopping": stopping, "most_runs": most, "epsilon": epsilon,
            "rounds_renyi": admitted(FilterKind::Renyi)?, "rounds_admitted": admitted(FilterKind::Gaussian)?,
            "rounds_tight": closed,
        }))?;
    }
    Ok(())
}

fn tight(event: &Event, delta: Delta) -> Option<f64> {
    Plan::of(event, Adjacency::ZeroOut).epsilon(delta).ok().flatten().map(Epsilon::get)
}

fn renyi(event: &Event, delta: Delta) -> Result<Option<f64>, Box<dyn std::error::Error>> {
    let curve = mechanism::curve(event, Adjacency::ZeroOut, &OrderGrid::reporting())?;
    Ok(convert::epsilon(&curve, delta).map(Epsilon::get))
}

/// Returns the greatest number of rounds that passes a test which fails from some number on.
fn most_rounds(passes: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1);
    while high <= MOST_ROUNDS && passes(high) {
        (low, high) = (high, 2 * high);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if passes(middle) { low = middle } else { high = middle }
    }
    low
}
