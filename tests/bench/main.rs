//! `make bench NAME=<name>` runs one measurement of the product and prints one JSON object a line, the first of which
//! says on which machine. To add a measurement: a module with a `pub(crate) fn run(&mut Report) -> Outcome`, and its
//! line in [`MEASUREMENTS`].

mod accounting;
mod arms;
mod bundle;
mod crash;
mod dp_step;
mod ledger;
mod report;
mod simulation;

use std::process::ExitCode;

use report::{Outcome, Report};

/// One measurement.
struct Measurement {
    name: &'static str,
    /// What it measures, for the list.
    what: &'static str,
    run: fn(&mut Report) -> Outcome,
}

const MEASUREMENTS: &[Measurement] = &[
    Measurement {
        name: "accounting",
        what: "seconds to work out an epsilon, natively and in wasm, beside dp_accounting; an admission on a long ledger",
        run: accounting::run,
    },
    Measurement { name: "arms", what: "the three arms on real speech: accuracy, epsilon, minutes", run: arms::run },
    Measurement { name: "bundle", what: "what a browser loads, in bytes: as it is, and compressed", run: bundle::run },
    Measurement {
        name: "crash",
        what: "epsilon after killed workers and servers, against none killed",
        run: crash::run,
    },
    Measurement {
        name: "dp_step",
        what: "frames a second of a private step, beside a plain one of the same model",
        run: dp_step::run,
    },
    Measurement {
        name: "ledger",
        what: "reservations, commits and settlements a second, beside a bare insert, on SQLite and PostgreSQL",
        run: ledger::run,
    },
    Measurement {
        name: "simulation",
        what: "schedules a second of a consortium in which everything goes wrong, and how many failed",
        run: simulation::run,
    },
];

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    let Some(measurement) = MEASUREMENTS.iter().find(|measurement| measurement.name == asked) else {
        eprintln!("no measurement is called {asked:?}; there are:");
        for Measurement { name, what, .. } in MEASUREMENTS {
            eprintln!("  {name:<12} {what}");
        }
        return ExitCode::from(2);
    };
    let mut report = Report::new(measurement.name);
    match report.machine().and_then(|()| (measurement.run)(&mut report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{asked}: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}
