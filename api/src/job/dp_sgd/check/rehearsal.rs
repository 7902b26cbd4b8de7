//! Limits of a rehearsal. The rehearsed job has to be one that could be proposed.

use super::{check_range, find_dataset};
use crate::dataset::Dataset;
use crate::job::dp_sgd::{Rehearsal, Spec};
use crate::problem::Violation;

/// The most rehearsed parties.
const MAX_PARTIES: usize = 20;
/// The most factors of the clip, and of the learning rate.
const MAX_FACTORS: usize = 4;
/// The least and the greatest factor.
const FACTORS: (f64, f64) = (0.01, 100.0);
/// The most units of a party.
const MAX_UNITS: u64 = 1_000_000_000;

/// Checks a spec with a rehearsal.
pub(super) fn check(spec: &Spec, rehearsal: &Rehearsal, datasets: &[Dataset]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
    if spec.participants.len() != 1 {
        let message = format!(
            "a rehearsal has the lead as its only participant, not {}: name the others in `rehearsal.parties`",
            spec.participants.len()
        );
        say("participants", message);
    }
    for (field, is_there) in [
        ("open_terms", !spec.open_terms.is_empty()),
        ("open", spec.open.is_some()),
        ("private", spec.private.is_some()),
        ("audit", spec.audit.is_some()),
        ("selection", spec.selection.is_some()),
        ("secure_aggregation", spec.secure_aggregation.is_some()),
    ] {
        if is_there {
            say(field, "a rehearsal has no part for this: leave it out, and propose the job itself later".to_owned());
        }
    }
    let count = rehearsal.parties.len();
    if count == 0 || count > MAX_PARTIES {
        say("rehearsal.parties", format!("name 1 to {MAX_PARTIES}, not {count}"));
    }
    if count > 0 && rehearsal.parties.iter().all(|party| party.noise.is_none()) {
        say("rehearsal.parties", "no party adds noise: there is nothing to rehearse".to_owned());
    }
    for (index, party) in rehearsal.parties.iter().enumerate() {
        if party.noise.is_some_and(|noise| noise.banded.is_some()) {
            let why = "a rehearsal draws independent noise: leave this out";
            say(&format!("rehearsal.parties.{index}.noise.banded"), why.to_owned());
        }
        let n = party.units.or_else(|| find_dataset(datasets, party.dataset).map(|dataset| dataset.count(spec.unit).0));
        if n.is_some_and(|n| !(1..=MAX_UNITS).contains(&n)) {
            say(&format!("rehearsal.parties.{index}.units"), "a number of units from 1 to 1,000,000,000".to_owned());
        }
    }
    check_range(&mut say, "rehearsal.repeats", f64::from(rehearsal.repeats), 1.0, 10.0);
    check_range(&mut say, "rehearsal.minutes", f64::from(rehearsal.minutes), 1.0, 1440.0);
    check_factors(&rehearsal.clip_factors, "rehearsal.clip_factors", &mut say);
    check_factors(&rehearsal.rate_factors, "rehearsal.rate_factors", &mut say);
    let optimizer = rehearsal.rounds.optimizer;
    let most = optimizer.most_learning_rate();
    if rehearsal.rate_factors.iter().any(|factor| optimizer.learning_rate() * factor > most) {
        say(
            "rehearsal.rate_factors",
            format!("a product with the learning rate exceeds {most}, this optimizer's limit"),
        );
    }
    violations.extend(check_rehearsed(spec, datasets));
    violations
}

fn check_factors(factors: &[f64], field: &str, say: &mut impl FnMut(&str, String)) {
    if factors.len() > MAX_FACTORS {
        say(field, format!("name at most {MAX_FACTORS}, not {}", factors.len()));
    }
    let is_repeated = |index: usize| factors[..index].iter().any(|other| other.to_bits() == factors[index].to_bits());
    let is_own = |factor: f64| factor.to_bits() == 1.0_f64.to_bits();
    for (index, factor) in factors.iter().enumerate() {
        if !(FACTORS.0..=FACTORS.1).contains(factor) || is_own(*factor) || is_repeated(index) {
            let message =
                format!("factors from {} to {}, each once; 1 is the plan's own, not {factor}", FACTORS.0, FACTORS.1);
            say(field, message);
        }
    }
}

/// Checks the rehearsed job, and reports its violations at the fields of the rehearsal.
fn check_rehearsed(spec: &Spec, datasets: &[Dataset]) -> Vec<Violation> {
    // Parts that a rehearsal must not have are reported as such, not checked.
    let mut bare = Spec { open_terms: Vec::new(), open: None, audit: None, selection: None, ..spec.clone() };
    bare.secure_aggregation = None;
    let Some(rehearsed) = bare.rehearsed() else { return Vec::new() };
    let move_field = |violation: Violation| Violation { field: convert_field(spec, &violation.field), ..violation };
    super::check(&rehearsed, datasets).into_iter().map(move_field).collect()
}

/// Converts the path of a field of the rehearsed job to that of the spec.
fn convert_field(spec: &Spec, field: &str) -> String {
    if let Some(rest) = field.strip_prefix("spec.private.") {
        return format!("spec.rehearsal.rounds.{rest}");
    }
    let party = field.strip_prefix("spec.participants.").and_then(|rest| rest.split_once('.'));
    let party = party.and_then(|(index, rest)| Some((index.parse::<usize>().ok()?, rest)));
    match party.and_then(|(index, rest)| Some((index.checked_sub(spec.participants.len())?, rest))) {
        Some((index, rest)) => format!("spec.rehearsal.parties.{index}.{rest}"),
        None => field.to_owned(),
    }
}
