//! The table that matters, as text: arms by test sets, and what each party lost.

use std::fmt::Write as _;

use undertone_api::job::dp_sgd::Arm;
use undertone_api::job::{Charge, Job, Purpose, Report, Spec};

use crate::service::ledger;

/// δ at which the epsilon of a job by itself is told.
const DELTA: f64 = 1e-5;

/// The report of a finished job.
pub(super) fn report(job: &Job) -> String {
    let mut text = String::new();
    let (Some(Report::DpSgd(report)), Spec::DpSgd(spec)) = (&job.report, &job.spec) else { return text };
    let tests: Vec<&str> = spec.tests.iter().map(|test| test.name.as_str()).collect();
    let _ = write!(text, "{:<34}{:>8}{:>9}", "arm", "rounds", "seconds");
    for test in &tests {
        let _ = write!(text, "{:>12}", format!("{test} %"));
    }
    text.push('\n');
    for arm in &report.arms {
        let name = match arm.arm {
            Arm::Public => "public only",
            Arm::Open => "public + private data in the clear",
            Arm::Private => "public + private data by DP-SGD",
        };
        let _ = write!(text, "{name:<34}{:>8}{:>9.1}", arm.rounds, arm.seconds);
        for test in &tests {
            let cell = arm.tests.iter().find(|result| result.test == *test);
            let cell = cell.map_or_else(|| "-".to_owned(), |result| format!("{:.2}", 100.0 * result.accuracy));
            let _ = write!(text, "{cell:>12}");
        }
        text.push('\n');
    }
    text.push_str("\nprivate arm by itself, for records, at delta 1e-5:\n");
    for part in job.participants.iter().filter(|part| part.purpose == Purpose::Participate) {
        let (Some(charge), Some(rounds), Some(party)) = (&part.charge, &spec.private, spec.party(part.dataset)) else {
            continue;
        };
        let Some(noise) = party.noise else { continue };
        let event = undertone_privacy::Event::PoissonSampledGaussian {
            sampling_rate: party.sampling_rate,
            noise_multiplier: noise.noise_multiplier,
        };
        let private = Charge { event, ..charge.clone() };
        let epsilon = ledger::epsilon_alone(&private, u64::from(rounds.rounds), DELTA);
        let epsilon = epsilon.map_or_else(|| "infinite".to_owned(), |epsilon| format!("{epsilon:.3}"));
        let _ = writeln!(text, "  {:<32}epsilon {epsilon}", part.organization_name);
    }
    text.push_str("The same records were also released in the clear, for the arm in the middle: their owners opened them for it.\n");
    text
}
