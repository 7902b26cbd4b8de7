//! What a `dp_sgd` spec must satisfy before anybody is asked to approve it.

use std::collections::HashSet;

use undertone_privacy::PrivacyUnit;

use super::{Arm, Optimizer, Rounds, Spec};
use crate::dataset::{Dataset, Visibility};
use crate::id::DatasetId;
use crate::job::{Kind, Purpose};
use crate::problem::Violation;

/// Most participants in a job.
const MAX_PARTICIPANTS: usize = 100;
/// Most test sets in a job.
const MAX_TESTS: usize = 20;
/// The noise multipliers with which the sites can draw their noise exactly.
const NOISE: (f64, f64) = (1.0 / 1024.0, 1024.0);
/// Most classes: labels are 16 bits wide.
const MAX_CLASSES: u32 = 65_536;
/// Most parameters of a model: what the server averages as one vector.
const MAX_PARAMETERS: u64 = 64 << 20;

pub(super) fn check(spec: &Spec, datasets: &[Dataset]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
    let find = |id| datasets.iter().find(|dataset: &&Dataset| dataset.id == id);

    if spec.unit == PrivacyUnit::User {
        say("unit", "speech has records and speakers; use `record` or `speaker`".to_owned());
    }
    within(&mut say, "model.hidden", f64::from(spec.model.hidden), 1.0, 2048.0);
    within(&mut say, "warm_start.epochs", f64::from(spec.warm_start.epochs), 0.0, 1000.0);
    within(&mut say, "warm_start.batch", f64::from(spec.warm_start.batch), 1.0, 1024.0);
    positive(&mut say, "warm_start.learning_rate", spec.warm_start.learning_rate, 1.0);
    within(&mut say, "spare_releases", f64::from(spec.spare_releases), 0.0, 1000.0);
    within(&mut say, "checkpoint_every", f64::from(spec.checkpoint_every), 1.0, 10_000.0);

    if spec.participants.is_empty() || spec.participants.len() > MAX_PARTICIPANTS {
        say("participants", format!("name 1 to {MAX_PARTICIPANTS}, not {}", spec.participants.len()));
    }
    let mut seen = HashSet::new();
    for (index, party) in spec.participants.iter().enumerate() {
        let at = |field: &str| format!("participants.{index}.{field}");
        if !seen.insert(party.dataset) {
            say(&at("dataset"), "each dataset takes part once".to_owned());
        }
        if let Some(noise) = party.noise {
            positive(&mut say, &at("noise.clip"), noise.clip, 1e6);
            within(&mut say, &at("noise.noise_multiplier"), noise.noise_multiplier.get(), NOISE.0, NOISE.1);
        }
        let Some(dataset) = find(party.dataset) else {
            say(&at("dataset"), "no such dataset in this consortium".to_owned());
            continue;
        };
        if index == 0 && dataset.visibility != Visibility::Public {
            say(&at("dataset"), "the first participant leads and must be public".to_owned());
        }
        if spec.private.is_some() && dataset.visibility != Visibility::Public && party.noise.is_none() {
            say(&at("noise"), format!("`{}` is not public: give its noise and clip", dataset.name));
        }
        if spec.open.is_some() && dataset.visibility == Visibility::Private {
            say(
                &at("dataset"),
                format!("`{}` is not marked open by its owner; leave out the open arm, or ask them", dataset.name),
            );
        }
    }
    check_sizes(spec, datasets, &mut say);
    check_tests(spec, datasets, &mut say);
    check_audit(spec, &mut say);
    for arm in [Arm::Open, Arm::Private] {
        if let Some(rounds) = spec.rounds(arm) {
            check_rounds(arm.series(), rounds, spec.participants.len(), &mut say);
        }
    }
    violations
}

/// The most classes that any of the `used` datasets has.
pub(super) fn most_classes(used: &[(DatasetId, Purpose)], datasets: &[Dataset]) -> u32 {
    let named = datasets.iter().filter(|dataset| used.iter().any(|(id, _)| *id == dataset.id));
    named.map(|dataset| dataset.classes).max().unwrap_or(1)
}

fn check_sizes(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let ids = spec.datasets();
    let used: Vec<_> = ids.iter().filter_map(|(id, _)| datasets.iter().find(|dataset| dataset.id == *id)).collect();
    let Some(first) = used.first() else { return };
    if let Some(other) = used.iter().find(|dataset| dataset.inputs != first.inputs) {
        say(
            "participants",
            format!("`{}` has {} inputs, `{}` has {}", first.name, first.inputs, other.name, other.inputs),
        );
    }
    let most = most_classes(&ids, datasets);
    match spec.model.classes {
        Some(classes) if classes < most => {
            say("model.classes", format!("the datasets have {most} classes; give at least that, or leave it out"));
        }
        Some(classes) if classes > MAX_CLASSES => say("model.classes", format!("at most 65,536, not {classes}")),
        _ => {}
    }
    let (inputs, hidden) = (u64::from(first.inputs), u64::from(spec.model.hidden.min(2048)));
    let classes = u64::from(spec.model.classes.unwrap_or(most).min(MAX_CLASSES));
    let parameters = 4 * hidden * (inputs + hidden + 1) + classes * (hidden + 1);
    if let Some(audit) = spec.audit.filter(|audit| u64::from(audit.canaries) > parameters) {
        say(
            "audit.canaries",
            format!("each needs a parameter of its own: at most {parameters} for this model, not {}", audit.canaries),
        );
    }
    if parameters > MAX_PARAMETERS {
        say(
            "model.hidden",
            format!(
                "the model would have {parameters} parameters; at most {MAX_PARAMETERS}: use fewer hidden units or classes"
            ),
        );
    }
}

fn check_audit(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    let Some(audit) = spec.audit else { return };
    if spec.private.is_none() {
        say("audit", "only the private arm is audited: ask for it, or leave the audit out".to_owned());
    }
    within(say, "audit.canaries", f64::from(audit.canaries), 20.0, 10_000.0);
    if audit.guesses < 2 || audit.guesses > audit.canaries || !audit.guesses.is_multiple_of(2) {
        say("audit.guesses", format!("an even number from 2 to the number of canaries, not {}", audit.guesses));
    }
    if audit.recordings != 0 {
        within(say, "audit.recordings", f64::from(audit.recordings), 20.0, 2000.0);
    }
}

fn check_tests(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    if spec.tests.is_empty() || spec.tests.len() > MAX_TESTS {
        say("tests", format!("name 1 to {MAX_TESTS} public test sets, not {}", spec.tests.len()));
    }
    let lead = spec.participants.first().and_then(|party| datasets.iter().find(|dataset| dataset.id == party.dataset));
    let mut names = HashSet::new();
    for (index, test) in spec.tests.iter().enumerate() {
        let at = |field: &str| format!("tests.{index}.{field}");
        if !(1..=40).contains(&test.name.trim().chars().count()) || !names.insert(test.name.trim()) {
            say(&at("name"), "give each test set a name of its own, 1 to 40 characters".to_owned());
        }
        let Some(dataset) = datasets.iter().find(|dataset| dataset.id == test.dataset) else {
            say(&at("dataset"), "no such dataset in this consortium".to_owned());
            continue;
        };
        if dataset.visibility != Visibility::Public {
            say(&at("dataset"), format!("`{}` is not public; only public data are measured on", dataset.name));
        }
        if lead.is_some_and(|lead| lead.worker != dataset.worker) {
            say(&at("dataset"), format!("`{}` does not lie at the lead participant's worker", dataset.name));
        }
    }
}

fn check_rounds(arm: &str, rounds: &Rounds, contributors: usize, say: &mut impl FnMut(&str, String)) {
    let at = |field: &str| format!("{arm}.{field}");
    within(say, &at("rounds"), f64::from(rounds.rounds), 1.0, 100_000.0);
    within(say, &at("evaluate_every"), f64::from(rounds.evaluate_every), 1.0, 10_000.0);
    within(say, &at("deadline_seconds"), f64::from(rounds.deadline_seconds), 1.0, 86_400.0);
    within(say, &at("quorum"), f64::from(rounds.quorum), 1.0, contributors.max(1) as f64);
    match rounds.optimizer {
        Optimizer::Sgd { learning_rate, momentum } => {
            positive(say, &at("learning_rate"), learning_rate, 1000.0);
            if !(0.0..1.0).contains(&momentum) {
                say(&at("momentum"), format!("at least 0 and less than 1, not {momentum}"));
            }
        }
        Optimizer::Adam { learning_rate } => positive(say, &at("learning_rate"), learning_rate, 1.0),
    }
}

fn within(say: &mut impl FnMut(&str, String), field: &str, value: f64, least: f64, most: f64) {
    if !(least..=most).contains(&value) {
        say(field, format!("from {least} to {most}, not {value}"));
    }
}

fn positive(say: &mut impl FnMut(&str, String), field: &str, value: f64, most: f64) {
    if !(value > 0.0 && value <= most) {
        say(field, format!("greater than 0 and at most {most}, not {value}"));
    }
}

#[cfg(test)]
mod tests;
