//! The results as a text table: arms by test sets, and the privacy loss of each party.

use std::fmt::Write as _;

use undertone_api::job::dp_sgd::{Arm, Report as DpSgd, Spec as DpSgdSpec};
use undertone_api::job::{DatasetUse, Job, JobParticipant, Report, Spec};
use undertone_privacy::PrivacyUnit;

/// Formats the report of a finished job.
pub(super) fn report(job: &Job) -> String {
    let (Some(Report::DpSgd(report)), Spec::DpSgd(spec)) = (&job.report, &job.spec) else { return String::new() };
    let mut text = arms(report, spec);
    text.push('\n');
    text.push_str(&parties(&job.participants, spec.unit));
    if spec.open.is_some() {
        text.push_str(
            "The owners also opened these data for the middle row: what it sent has no protection, and no epsilon.\n",
        );
    }
    text
}

fn arms(report: &DpSgd, spec: &DpSgdSpec) -> String {
    let tests: Vec<&str> = spec.tests.iter().map(|test| test.name.as_str()).collect();
    let mut text = format!("{:<34}{:>8}{:>9}", "arm", "rounds", "seconds");
    for test in &tests {
        let _ = write!(text, "{:>16}", format!("{test} %"));
    }
    text.push('\n');
    for arm in &report.arms {
        let name = match arm.arm {
            Arm::Public => "public only (rounds are epochs)",
            Arm::Open => "public + private data in the clear",
            Arm::Private => "public + private data by DP-SGD",
        };
        let _ = write!(text, "{name:<34}{:>8}{:>9.1}", arm.rounds, arm.seconds);
        for test in &tests {
            let cell = arm.tests.iter().find(|result| result.test == *test);
            let cell = cell.map_or_else(|| "-".to_owned(), |result| format!("{:.2}", 100.0 * result.accuracy));
            let _ = write!(text, "{cell:>16}");
        }
        text.push('\n');
    }
    text
}

/// Formats the spent and the reserved ε of each charged party, from the ledgers.
fn parties(parts: &[JobParticipant], unit: PrivacyUnit) -> String {
    let (one, many) = match unit {
        PrivacyUnit::Record => ("one utterance", "record"),
        PrivacyUnit::Speaker => ("one speaker with all utterances", "speaker"),
        PrivacyUnit::User => ("one user with everything", "user"),
        PrivacyUnit::Words => ("as many counts of pieces by word as stated", "count"),
    };
    let mut text = format!("privacy by party: {many} level, {one} more or less changes what was sent by at most\n");
    for part in parts.iter().filter(|part| part.purpose == DatasetUse::Participate && part.charge.is_some()) {
        let epsilon =
            |epsilon: Option<f64>| epsilon.map_or_else(|| "infinite".to_owned(), |value| format!("{value:.3}"));
        let delta = part.delta.map_or_else(|| "-".to_owned(), |delta| format!("{delta:e}"));
        let _ = writeln!(
            text,
            "  {:<32}epsilon {} at delta {delta}, by {} releases (reserved: {})",
            part.organization_name,
            epsilon(part.epsilon_spent),
            part.releases,
            epsilon(part.epsilon_reserved),
        );
    }
    text
}
