//! Limits of private selection.

use super::{check_positive, check_range};
use crate::job::dp_sgd::{Arm, Optimizer, Spec};

/// The range of the number of candidates.
const CANDIDATES: (usize, usize) = (2, 64);
/// The range of runs in a round. All of them are made, for every K.
const RUNS: (f64, f64) = (2.0, 1000.0);
/// The most utterances of development data. All participants fetch them.
const MAX_DEVELOPMENT: f64 = 2000.0;
/// The least stopping probability: below it, `most_runs` almost always cuts K off.
const LEAST_STOPPING: f64 = 1.0 / 1024.0;

/// Checks private selection, if the spec has one.
pub(super) fn check(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    let Some(selection) = &spec.selection else { return };
    let Some(rounds) = spec.rounds(Arm::Private) else {
        say("selection", "only the private arm selects: ask for it, or leave the selection out".to_owned());
        return;
    };
    if rounds.local_steps < 2 {
        let why = "a run is a round's local steps, and its update travels: set `private.local_steps` to 2 or more";
        say("selection", why.to_owned());
    }
    if spec.audit.is_some() {
        let why = "an audit guesses from every release, and here the runs that lost are none: leave one of them out";
        say("selection", why.to_owned());
    }
    if selection.shape.get() > 1.0 {
        say("selection.shape", format!("more than -1 and at most 1, not {}", selection.shape.get()));
    }
    check_range(say, "selection.stopping", selection.stopping.get(), LEAST_STOPPING, 1.0);
    check_range(say, "selection.most_runs", f64::from(selection.most_runs.get()), RUNS.0, RUNS.1);
    check_range(say, "selection.development", f64::from(selection.development), 1.0, MAX_DEVELOPMENT);
    let (least, most) = CANDIDATES;
    if !(least..=most).contains(&selection.candidates.len()) {
        say("selection.candidates", format!("name {least} to {most}, not {}", selection.candidates.len()));
    }
    let most_rate = if matches!(rounds.optimizer, Optimizer::Sgd { .. }) { 1000.0 } else { 1.0 };
    for (index, candidate) in selection.candidates.iter().enumerate() {
        let at = |field: &str| format!("selection.candidates.{index}.{field}");
        check_positive(say, &at("learning_rate"), candidate.learning_rate, most_rate);
        check_positive(say, &at("clip"), candidate.clip, 1.0);
    }
}
