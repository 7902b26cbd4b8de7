//! `make bench NAME=<name>` runs one measurement of the product and prints one JSON object for each line; the first
//! describes the machine. To add a measurement: a module with a `pub(crate) fn run(&mut Report) -> Outcome`, and its
//! line in [`MEASUREMENTS`].

mod accounting;
mod active_learning;
mod analytics;
mod arms;
mod attacks;
mod bundle;
mod correlated_noise;
mod counting;
mod crash;
mod dp_growth;
mod dp_step;
mod evaluation;
mod exchange;
mod first_run;
mod ledger;
mod load;
mod recognize;
mod report;
mod rounds;
mod secure_aggregation;
mod simulation;
mod tabular;
mod tasks;
mod timing;
mod transcription;

use std::process::ExitCode;

use report::{Outcome, Report};

/// One measurement.
struct Measurement {
    name: &'static str,
    /// The description for the list.
    what: &'static str,
    run: fn(&mut Report) -> Outcome,
}

const MEASUREMENTS: &[Measurement] = &[
    Measurement {
        name: "accounting",
        what: "seconds to work out an epsilon, natively and in wasm, beside dp_accounting; an admission on a long ledger",
        run: accounting::run,
    },
    Measurement {
        name: "active_learning",
        what: "what sampling and k cost a classifier of real queries; uncertainty beside chance at equal labels; seconds",
        run: active_learning::run,
    },
    Measurement {
        name: "analytics",
        what: "errors of twelve queries on a table beside the planner's and OpenDP's; seconds and memory beside DataFusion",
        run: analytics::run,
    },
    Measurement {
        name: "arms",
        what: "the three arms on real speech and an outlier, at several epsilon: accuracy, macro-F1, membership inference",
        run: arms::run,
    },
    Measurement {
        name: "attacks",
        what: "what attacks on the promises gain, played with the real server and worker, and what they gained before",
        run: attacks::run,
    },
    Measurement { name: "bundle", what: "what a browser loads, in bytes: as it is, and compressed", run: bundle::run },
    Measurement {
        name: "correlated_noise",
        what: "error of running sums and of the final model with independent and correlated noise at equal epsilon",
        run: correlated_noise::run,
    },
    Measurement {
        name: "counting",
        what: "rows a second and memory of the counting pass, beside DuckDB and Apache DataSketches; what estimates are worth",
        run: counting::run,
    },
    Measurement {
        name: "crash",
        what: "epsilon after killed workers and servers, against none killed",
        run: crash::run,
    },
    Measurement {
        name: "dp_growth",
        what: "how a private step's cost grows with batch, frames and classes, beside a plain one's",
        run: dp_growth::run,
    },
    Measurement {
        name: "dp_step",
        what: "frames a second and memory of a private step, beside a plain one, burn's, PyTorch's and Opacus'",
        run: dp_step::run,
    },
    Measurement {
        name: "evaluation",
        what: "how often 95 % intervals of private evaluations contain the truth, and the error of their AUROC",
        run: evaluation::run,
    },
    Measurement {
        name: "exchange",
        what: "bytes and seconds of a round over a slow line, in 32, 16 and 8 bits, packed and not, and after a break",
        run: exchange::run,
    },
    Measurement {
        name: "fairness",
        what: "latency and errors of nineteen organizations beside a greedy one that registers, plans, uploads, asks or watches",
        run: load::fairness::run,
    },
    Measurement {
        name: "first_run",
        what: "commands and seconds to a signed-in dashboard with a running job, and to an enrolled site",
        run: first_run::run,
    },
    Measurement {
        name: "hostile",
        what: "latency, errors, memory and recovery of honest browsers and workers while one attack after another runs",
        run: load::hostile::run,
    },
    Measurement {
        name: "ledger",
        what: "reservations, commits and settlements a second, beside a bare insert, on SQLite and PostgreSQL",
        run: ledger::run,
    },
    Measurement {
        name: "ledger_rounds",
        what: "rounds of private training that the ledger admits: by the Renyi filter, by the Gaussian filter, and the tight number",
        run: accounting::run_ledger_rounds,
    },
    Measurement {
        name: "load",
        what: "latency, memory and missed deadlines of 200 workers and 50 browsers: one server, then two replicas",
        run: load::run,
    },
    Measurement {
        name: "recognize",
        what: "word error rates of models of senones and of characters (CTC) on AN4, without and with a lexicon and bigrams",
        run: recognize::run,
    },
    Measurement {
        name: "rounds",
        what: "what a round of 8 MB costs 3 and 20 participants beside computing and copying, beside Flower",
        run: rounds::run,
    },
    Measurement {
        name: "secure_aggregation",
        what: "traffic, time and noise of a masked round beside a plain one, with and without dropouts; whether sums are exact",
        run: secure_aggregation::run,
    },
    Measurement {
        name: "simulation",
        what: "schedules a second of a consortium in which everything goes wrong, and how many failed",
        run: simulation::run,
    },
    Measurement {
        name: "tabular",
        what: "accuracy and seconds of private models of numbers, feature vectors and texts, beside Opacus at equal epsilon",
        run: tabular::run,
    },
    Measurement {
        name: "tasks",
        what: "ten tasks at the demonstration's dashboard, on a desktop and a phone: steps, seconds, scrolled distance, dead ends",
        run: tasks::run,
    },
    Measurement {
        name: "timing",
        what: "what all times of a 200-round job tell an attacker of the batches, with and without the release clock; its cost",
        run: timing::run,
    },
    Measurement {
        name: "transcription",
        what: "word error rates, dummies, money, what providers receive, two attacks, hours an hour, memory",
        run: transcription::run,
    },
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(measurement) = MEASUREMENTS.iter().find(|measurement| measurement.name == name) else {
        eprintln!("no measurement is called {name:?}; there are:");
        for Measurement { name, what, .. } in MEASUREMENTS {
            eprintln!("  {name:<16} {what}");
        }
        return ExitCode::from(2);
    };
    let mut report = Report::new(measurement.name);
    match report.machine().and_then(|()| (measurement.run)(&mut report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}
