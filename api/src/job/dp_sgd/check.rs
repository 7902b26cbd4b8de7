//! The requirements on a `dp_sgd` spec, checked before approval is requested.

mod adaptation;
mod augmentation;
mod banded;
mod masked;
mod model;
mod rehearsal;
mod rounds;
mod rows;
mod selection;

use std::collections::HashSet;

use undertone_privacy::PrivacyUnit;

use super::{Arm, Spec, TrainingLoss};
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::id::DatasetId;
use crate::job::check::{check_positive, check_range, is_digest};
use crate::job::{DatasetUse, JobKind};
use crate::problem::Violation;

/// The most participants in a job.
const MAX_PARTICIPANTS: usize = 100;
/// The most test sets in a job.
const MAX_TESTS: usize = 20;
/// The noise multipliers for which the sites can draw noise exactly.
const NOISE: (f64, f64) = (1.0 / 1024.0, 1024.0);

pub(super) fn check(spec: &Spec, datasets: &[Dataset]) -> Vec<Violation> {
    if let Some(rehearsal) = &spec.rehearsal {
        return rehearsal::check(spec, rehearsal, datasets);
    }
    let mut violations = Vec::new();
    let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));

    check_unit(spec, datasets, &mut say);
    model::check(&spec.model, &mut say);
    if let Some(columns) = &spec.model.rows {
        rows::check(spec, columns, datasets, &mut say);
    }
    if spec.initial_model.as_deref().is_some_and(|digest| !is_digest(digest)) {
        say("initial_model", "the SHA-256 of a registry model's file: 64 hex digits in lower case".to_owned());
    }
    check_range(&mut say, "warm_start.epochs", f64::from(spec.warm_start.epochs), 0.0, 1000.0);
    check_range(&mut say, "warm_start.batch", f64::from(spec.warm_start.batch), 1.0, 1024.0);
    check_positive(&mut say, "warm_start.learning_rate", spec.warm_start.learning_rate, 1.0);
    check_range(&mut say, "spare_releases", f64::from(spec.spare_releases), 0.0, 1000.0);
    check_range(&mut say, "checkpoint_every", f64::from(spec.checkpoint_every), 1.0, 10_000.0);

    if spec.participants.is_empty() || spec.participants.len() > MAX_PARTICIPANTS {
        say("participants", format!("name 1 to {MAX_PARTICIPANTS}, not {}", spec.participants.len()));
    }
    let mut ids = HashSet::new();
    for (index, party) in spec.participants.iter().enumerate() {
        let at = |field: &str| format!("participants.{index}.{field}");
        if !ids.insert(party.dataset) {
            say(&at("dataset"), "each dataset takes part once".to_owned());
        }
        if let Some(noise) = party.noise {
            check_positive(&mut say, &at("noise.clip"), noise.clip, 1e6);
            check_range(&mut say, &at("noise.noise_multiplier"), noise.noise_multiplier.get(), NOISE.0, NOISE.1);
        }
        let Some(dataset) = find_dataset(datasets, party.dataset) else {
            say(&at("dataset"), "no such dataset in this consortium".to_owned());
            continue;
        };
        check_content(spec, dataset, &at("dataset"), &mut say);
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
            rounds::check(spec, arm, rounds, &mut say);
        }
    }
    selection::check(spec, &mut say);
    masked::check(spec, datasets, &mut say);
    banded::check(spec, &mut say);
    super::terms::check(spec, NOISE, &mut say);
    violations
}

fn find_dataset(datasets: &[Dataset], id: DatasetId) -> Option<&Dataset> {
    datasets.iter().find(|dataset| dataset.id == id)
}

/// Checks that the dataset has what the model reads: frames of speech, or rows of a table.
fn check_content(spec: &Spec, dataset: &Dataset, field: &str, say: &mut impl FnMut(&str, String)) {
    let name = &dataset.name;
    let content = dataset.content.noun();
    if spec.model.rows.is_some() {
        if dataset.content != DatasetContent::Table {
            say(field, format!("`{name}` contains {content}; a model of rows is trained and measured on tables"));
        }
    } else if dataset.content != DatasetContent::Speech {
        say(field, format!("`{name}` contains {content}; an acoustic model is trained and measured on speech"));
    }
}

/// Checks that all participants' data keep the protected units apart. Public data need no protection.
fn check_unit(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    // The check of the columns reports other units once for all tables.
    if spec.model.rows.is_some() && spec.unit != PrivacyUnit::User {
        return;
    }
    let participants =
        spec.participants.iter().filter_map(|party| datasets.iter().find(|dataset| dataset.id == party.dataset));
    let mixed =
        participants.filter(|dataset| dataset.visibility != Visibility::Public && !dataset.keeps_apart(spec.unit));
    for dataset in mixed {
        let name = &dataset.name;
        if dataset.content == DatasetContent::Table {
            say("unit", format!("`{name}` is a table; use `user`, the values of its column of units"));
        } else if spec.unit == PrivacyUnit::User && dataset.users.is_none() {
            say(
                "unit",
                format!("`{name}` has no column of users; use `record` or `speaker`, or ask its owner for one"),
            );
        } else {
            // The features use means or choices over all speech of a speaker.
            say("unit", format!("`{name}` was prepared so that it does not keep these units apart; use `speaker`"));
        }
    }
}

/// Returns the most classes of any of the `used` datasets.
pub(super) fn most_classes(used: &[(DatasetId, DatasetUse)], datasets: &[Dataset]) -> u32 {
    let matches = datasets.iter().filter(|dataset| used.iter().any(|(id, _)| *id == dataset.id));
    matches.map(|dataset| dataset.classes).max().unwrap_or(1)
}

fn check_sizes(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let ids = spec.datasets();
    let used: Vec<_> = ids.iter().filter_map(|(id, _)| datasets.iter().find(|dataset| dataset.id == *id)).collect();
    let Some(first) = used.first() else { return };
    if let Some(rows) = &spec.model.rows {
        model::check_size(spec, rows.inputs(), rows.outputs(), say);
        return;
    }
    if let Some(other) = used.iter().find(|dataset| dataset.inputs != first.inputs) {
        say(
            "participants",
            format!("`{}` has {} inputs, `{}` has {}", first.name, first.inputs, other.name, other.inputs),
        );
    }
    let most = most_classes(&ids, datasets);
    model::check_size(spec, first.inputs, most, say);
    let classes = spec.model.classes.unwrap_or(most);
    let other = used.iter().find(|dataset| spec.model.loss == TrainingLoss::Ctc && dataset.classes != classes);
    if let Some(other) = other {
        say(
            "model.loss",
            format!(
                "the blank of `ctc` is class {}, the last, and `{}` has {} classes: prepare all datasets with one \
                 characters.json",
                classes.saturating_sub(1),
                other.name,
                other.classes
            ),
        );
    }
}

fn check_audit(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    let Some(audit) = spec.audit else { return };
    if spec.private.is_none() {
        say("audit", "only the private arm is audited: ask for it, or leave the audit out".to_owned());
    }
    check_range(say, "audit.canaries", f64::from(audit.canaries), 20.0, 10_000.0);
    if audit.guesses < 2 || audit.guesses > audit.canaries || !audit.guesses.is_multiple_of(2) {
        say("audit.guesses", format!("an even number from 2 to the number of canaries, not {}", audit.guesses));
    }
    if audit.recordings != 0 {
        check_range(say, "audit.recordings", f64::from(audit.recordings), 20.0, 2000.0);
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
        check_content(spec, dataset, &at("dataset"), say);
        if dataset.visibility != Visibility::Public {
            say(&at("dataset"), format!("`{}` is not public; only public data are measured on", dataset.name));
        }
        if lead.is_some_and(|lead| lead.worker != dataset.worker) {
            say(&at("dataset"), format!("`{}` does not lie at the lead participant's worker", dataset.name));
        }
    }
}

#[cfg(test)]
mod tests;
