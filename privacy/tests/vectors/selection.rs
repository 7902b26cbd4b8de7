//! private_selection.json: the best of a random number of runs.

use undertone_privacy::selection::{self, Runs};
use undertone_privacy::unit::{MeanRuns, RunShape, StoppingRate};
use undertone_privacy::{Epsilon, convert};

use crate::case::{VectorCase, cases};

#[test]
fn every_selection_vector_holds() {
    for case in cases("private_selection") {
        match case.text("kind") {
            "tnb" => {
                let shape = parsed(&case, RunShape::new(case.number("eta")));
                let stopping = parsed(&case, StoppingRate::new(case.number("gamma")));
                let runs = Runs::TruncatedNegativeBinomial { shape, stopping };
                case.near(runs.mean(), "mean_K", 1e-12);
                for (k, probability) in case.table("pmf") {
                    let got = runs.probability(parsed(&case, k.parse()));
                    assert!((got / probability - 1.0).abs() < 1e-11, "{}: {got} at {k}", case.id());
                }
                selected(&case, runs);
                if case.has("pure_dp_epsilon") {
                    let got = selection::pure(VectorCase::part(&case.value("base")).number("epsilon"), shape);
                    case.bounds(got, case.number("pure_dp_epsilon"), 1e-12);
                }
            }
            "poisson" => {
                let runs = Runs::Poisson { mean: parsed(&case, MeanRuns::new(case.number("mu"))) };
                case.near(runs.probability(0), "prob_zero_runs", 1e-12);
                selected(&case, runs);
            }
            "liu_talwar_pure" => {
                let epsilon = case.number("base_epsilon");
                let got = match case.text("variant") {
                    // Until the score passes a known threshold, or a coin stops the runs (Liu and Talwar 2019, Algorithm 1).
                    "threshold" => 2.0 * epsilon,
                    "best_of_geometric" => selection::pure(epsilon, parsed(&case, RunShape::new(1.0))),
                    other => panic!("{}: no rule for `{other}`", case.id()),
                };
                case.bounds(got, case.number("epsilon"), 1e-12);
            }
            _ => case.unknown(),
        }
    }
}

fn selected(case: &VectorCase, runs: Runs) {
    let base = case.curve("base_rdp");
    let single = convert::epsilon(&base, case.delta()).map_or(f64::INFINITY, Epsilon::get);
    case.bounds(single, case.number("single_run_epsilon"), 1e-9);
    let got = parsed(case, selection::curve(&base, runs));
    for ((_, loss), reference) in got.losses().zip(case.numbers("rdp")) {
        case.bounds(loss.to_f64_up(), reference, 1e-9);
    }
    let epsilon = convert::epsilon(&got, case.delta()).map_or(f64::INFINITY, Epsilon::get);
    case.bounds(epsilon, case.number("epsilon"), 1e-9);
}

#[track_caller]
fn parsed<T, E: std::fmt::Display>(case: &VectorCase, value: Result<T, E>) -> T {
    value.unwrap_or_else(|error| panic!("{}: {error}", case.id()))
}
