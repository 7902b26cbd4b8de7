//! The requirements on an `evaluation` spec, checked before approval is requested.

use std::collections::HashSet;

use undertone_privacy::PrivacyUnit;

use super::Spec;
use super::bins::ScoreBins;
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::job::check::{check_range, find_other_encoder, is_digest};
use crate::problem::Violation;
use crate::table::ColumnKind;

/// The most participants in a job, with the lead.
const MOST_PARTICIPANTS: usize = 100;
/// The most evaluated classes.
pub const MOST_CLASSES: usize = 64;
/// The most operating points.
const MOST_POINTS: usize = 20;
/// The range of a specificity.
const SPECIFICITY: (f64, f64) = (0.5, 0.999);
/// The noise multipliers for which the sites can draw noise exactly.
const NOISE: (f64, f64) = (1.0 / 1024.0, 1024.0);

pub(super) fn check(spec: &Spec, datasets: &[Dataset]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
    if !is_digest(&spec.model) {
        say("model", "the SHA-256 of the model's file: 64 hex digits in lower case".to_owned());
    }
    let [least, most] = [ScoreBins::COUNT.0, ScoreBins::COUNT.1];
    if !(least..=most).contains(&spec.bins.count) || !spec.bins.count.is_multiple_of(2) {
        say("bins.count", format!("an even number from {least} to {most}, not {}", spec.bins.count));
    }
    check_range(&mut say, "bins.width", spec.bins.width, ScoreBins::WIDTH.0, ScoreBins::WIDTH.1);
    check_range(&mut say, "noise_multiplier", spec.noise_multiplier.get(), NOISE.0, NOISE.1);
    check_range(&mut say, "deadline_seconds", f64::from(spec.deadline_seconds), 1.0, 86_400.0);
    let sites = spec.participants.len().saturating_sub(1);
    check_range(&mut say, "quorum", f64::from(spec.quorum), 1.0, sites.max(1) as f64);
    check_specificities(spec, &mut say);
    check_participants(spec, datasets, &mut say);
    check_columns(spec, datasets, &mut say);
    check_classes(spec, datasets, &mut say);
    violations
}

fn check_specificities(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    if spec.specificities.len() > MOST_POINTS {
        say("specificities", format!("at most {MOST_POINTS}, not {}", spec.specificities.len()));
    }
    for (index, specificity) in spec.specificities.iter().enumerate() {
        check_range(say, &format!("specificities.{index}"), *specificity, SPECIFICITY.0, SPECIFICITY.1);
    }
}

fn check_participants(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    if !(2..=MOST_PARTICIPANTS).contains(&spec.participants.len()) {
        let given = spec.participants.len();
        say("participants", format!("name the lead and 1 to {} sites, not {given}", MOST_PARTICIPANTS - 1));
    }
    let tables =
        spec.participants.iter().filter_map(|party| datasets.iter().find(|dataset| dataset.id == party.dataset));
    if let Some(problem) = find_other_encoder(tables) {
        say("participants", problem);
    }
    let mut ids = HashSet::new();
    let lead = spec.participants.first().and_then(|lead| datasets.iter().find(|dataset| dataset.id == lead.dataset));
    let lead = lead.filter(|lead| matches!(lead.content, DatasetContent::Speech | DatasetContent::Table));
    for (index, party) in spec.participants.iter().enumerate() {
        let field = format!("participants.{index}.dataset");
        if !ids.insert(party.dataset) {
            say(&field, "each dataset takes part once".to_owned());
        }
        let Some(dataset) = datasets.iter().find(|dataset| dataset.id == party.dataset) else {
            say(&field, "no such dataset in this consortium".to_owned());
            continue;
        };
        let name = &dataset.name;
        let content = dataset.content;
        match lead {
            Some(lead) if lead.content != content => {
                let (own, leads) = (content.noun(), lead.content.noun());
                say(&field, format!("`{name}` contains {own}, and `{}` {leads}: all are of one content", lead.name));
            }
            None if !matches!(content, DatasetContent::Speech | DatasetContent::Table) => {
                say(
                    &field,
                    format!("`{name}` contains {}; a model is evaluated on speech or on tables", content.noun()),
                );
            }
            _ => {}
        }
        match (index, dataset.visibility) {
            (0, Visibility::Private | Visibility::Open) => {
                say(&field, "the first participant leads, provides the model, and must be public".to_owned());
            }
            (1.., Visibility::Public) => say(
                &field,
                format!(
                    "`{name}` is public and needs no noise: its site evaluates it with `undertone-worker evaluate`"
                ),
            ),
            _ => {}
        }
        if index > 0 && dataset.visibility != Visibility::Public && !dataset.keeps_apart(spec.unit) {
            say("unit", format!("`{name}` does not keep these units apart; use a unit that it does"));
        }
    }
    if spec.unit == PrivacyUnit::Words {
        say("unit", "`record`, `speaker` or `user`: a histogram of scores does not protect words".to_owned());
    }
}

/// Checks the columns of a graph against the table of each participant.
fn check_columns(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let Some(columns) = &spec.columns else { return };
    let used: Vec<&Dataset> = datasets.iter().filter(|dataset| spec.is_participant(dataset.id)).collect();
    if let Some(other) = used.iter().find(|dataset| dataset.content != DatasetContent::Table) {
        let (name, content) = (&other.name, other.content.noun());
        say("columns", format!("leave them out: `{name}` contains {content}, and columns are those of tables"));
        return;
    }
    for violation in columns.check_for_graph("columns", used) {
        say(&violation.field, violation.message);
    }
    if let ColumnKind::Integer { .. } | ColumnKind::Real { .. } = columns.target.kind {
        let text = "a boolean or a category: a number has no classes, and a site measures it with `undertone-worker \
                    evaluate`";
        say("columns.target", text.to_owned());
    }
}

fn check_classes(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    if !(1..=MOST_CLASSES).contains(&spec.classes.len()) {
        say("classes", format!("name 1 to {MOST_CLASSES} classes, not {}", spec.classes.len()));
    }
    let sites = || datasets.iter().filter(|dataset| spec.is_participant(dataset.id));
    let mut known = HashSet::new();
    for (index, class) in spec.classes.iter().enumerate() {
        let field = format!("classes.{index}");
        if !known.insert(class) {
            say(&field, "each class is evaluated once".to_owned());
        }
        // The values of a table's target are the model's; each site compares them with its table.
        let mut labelled = sites().filter(|dataset| dataset.content != DatasetContent::Table);
        if let Some(dataset) = labelled.find(|dataset| dataset.classes <= *class) {
            let (name, classes) = (&dataset.name, dataset.classes);
            say(&field, format!("`{name}` has the classes 0 to {}, not {class}", classes.saturating_sub(1)));
        }
        if let Some(columns) = spec.columns.as_deref().filter(|columns| columns.outputs() <= *class) {
            let (target, most) = (&columns.target.name, columns.outputs().saturating_sub(1));
            say(&field, format!("the target `{target}` has the classes 0 to {most}, not {class}"));
        }
    }
    if let Some(first) = sites().next()
        && let Some(other) = sites().find(|dataset| dataset.inputs != first.inputs)
    {
        let text = format!("`{}` has {} inputs, `{}` has {}", first.name, first.inputs, other.name, other.inputs);
        say("participants", text);
    }
}
