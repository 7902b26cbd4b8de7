//! The requirements on an `active_learning` spec, checked before approval is requested.

mod learning;
mod party;
mod private_lead;
mod private_test;

use std::collections::HashSet;

use super::Spec;
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::id::DatasetId;
use crate::job::check::check_range;
use crate::problem::Violation;
use crate::question::OWN_KEYS;

/// The most test sets in a job.
const MAX_TESTS: usize = 20;
/// The most characters of guidelines.
const MAX_GUIDELINES: usize = 10_000;
/// The longest deadline of one round of questions, seconds: 30 days.
const MAX_DEADLINE: u32 = 30 * 86_400;
/// The longest duration of all rounds with the pools, seconds: a year.
const MAX_SECONDS: u64 = 365 * 86_400;

pub(super) fn check(spec: &Spec, datasets: &[Dataset]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
    party::check(spec, datasets, &mut say);
    check_labels(spec, &mut say);
    check_tests(spec, datasets, &mut say);
    check_rounds(spec, &mut say);
    learning::check(spec, &mut say);
    private_lead::check(spec, datasets, &mut say);
    private_test::check(spec, datasets, &mut say);
    violations
}

fn find(datasets: &[Dataset], id: DatasetId) -> Option<&Dataset> {
    datasets.iter().find(|dataset| dataset.id == id)
}

fn lead<'a>(spec: &Spec, datasets: &'a [Dataset]) -> Option<&'a Dataset> {
    find(datasets, spec.participants.first()?.dataset)
}

fn check_labels(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    if !(2..=200).contains(&spec.labels.len()) {
        say("labels", format!("name 2 to 200 labels, not {}", spec.labels.len()));
    }
    let mut names = HashSet::new();
    let mut keys = HashSet::new();
    for (index, label) in spec.labels.iter().enumerate() {
        let at = |field: &str| format!("labels.{index}.{field}");
        let name = label.name.trim();
        if name != label.name || !(1..=60).contains(&name.chars().count()) || !names.insert(name) {
            let own = "give each label a name of its own, 1 to 60 characters without blanks around it";
            say(&at("name"), own.to_owned());
        }
        if let Some(key) = label.key {
            if !(key.is_ascii_lowercase() || key.is_ascii_digit()) || OWN_KEYS.contains(&key) {
                let [skip, unsure, undo] = OWN_KEYS;
                let range = format!(
                    "a letter from a to z or a digit, not {key:?}; `{skip}`, `{unsure}` and `{undo}` skip, say unsure and undo"
                );
                say(&at("key"), range);
            } else if !keys.insert(key) {
                say(&at("key"), format!("`{key}` gives another label already; choose another key, or none"));
            }
        }
        if label.hint.chars().count() > 200 {
            say(&at("hint"), "at most 200 characters; the guidelines have room for more".to_owned());
        }
    }
    if spec.guidelines.chars().count() > MAX_GUIDELINES {
        say("guidelines", format!("at most {MAX_GUIDELINES} characters"));
    }
}

fn check_tests(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let least = usize::from(spec.private_lead.is_none());
    if !(least..=MAX_TESTS).contains(&spec.tests.len()) {
        say("tests", format!("name {least} to {MAX_TESTS} public test sets, not {}", spec.tests.len()));
    }
    let lead = lead(spec, datasets);
    let mut names = HashSet::new();
    for (index, test) in spec.tests.iter().enumerate() {
        let at = |field: &str| format!("tests.{index}.{field}");
        if !(1..=40).contains(&test.name.trim().chars().count()) || !names.insert(test.name.trim()) {
            say(&at("name"), "give each test set a name of its own, 1 to 40 characters".to_owned());
        }
        let Some(dataset) = find(datasets, test.dataset) else {
            say(&at("dataset"), "no such dataset in this consortium".to_owned());
            continue;
        };
        let name = &dataset.name;
        if dataset.content != DatasetContent::Queries {
            say(&at("dataset"), format!("`{name}` contains {}; measure on labelled queries", dataset.content.noun()));
        } else if dataset.visibility != Visibility::Public {
            say(&at("dataset"), format!("`{name}` is not public: measure on it with noise, as `private_test`"));
        } else {
            check_classes(spec, dataset, &at("dataset"), say);
        }
        if lead.is_some_and(|lead| lead.worker != dataset.worker) {
            say(&at("dataset"), format!("`{name}` does not lie at the lead participant's worker"));
        }
    }
}

/// Checks that public data have labels, and at most as many as the job names.
fn check_classes(spec: &Spec, dataset: &Dataset, field: &str, say: &mut impl FnMut(&str, String)) {
    let name = &dataset.name;
    let classes = dataset.classes;
    let labels = spec.labels.len();
    if classes == 0 {
        say(field, format!("`{name}` has no labels: map its label column, or name a dataset that has one"));
    } else if classes as usize > labels {
        say(field, format!("`{name}` has {classes} labels, the job {labels}: name all of them in `labels`"));
    }
}

fn check_rounds(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    check_range(say, "rounds", f64::from(spec.rounds), 1.0, 1000.0);
    check_range(say, "batch", f64::from(spec.batch), 1.0, 10_000.0);
    check_range(say, "annotators", f64::from(spec.annotators), 1.0, 20.0);
    check_range(say, "deadline_seconds", f64::from(spec.deadline_seconds), 1.0, f64::from(MAX_DEADLINE));
    let seconds = (u64::from(spec.rounds) + 1).saturating_mul(spec.deadline_seconds.into());
    if spec.deadline_seconds <= MAX_DEADLINE && (1..=1000).contains(&spec.rounds) && seconds > MAX_SECONDS {
        let rounds = spec.rounds;
        say(
            "deadline_seconds",
            format!("{rounds} rounds and the pools would take more than a year: ask in fewer rounds, or wait less"),
        );
    }
}

#[cfg(test)]
mod tests;
