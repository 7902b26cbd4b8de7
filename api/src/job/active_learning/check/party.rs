//! Limits of the participants and their gates.

use std::collections::HashSet;

use undertone_privacy::kanon::least_epsilon;
use undertone_privacy::{Adjacency, PrivacyUnit, mechanism};

use super::{check_classes, find};
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::job::active_learning::{Gate, Spec};
use crate::job::check::check_range;

/// The most participants in a job.
const MAX_PARTICIPANTS: usize = 100;

/// Checks each participant, and the unit that their data must keep apart.
pub(super) fn check(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    if spec.participants.is_empty() || spec.participants.len() > MAX_PARTICIPANTS {
        say("participants", format!("name 1 to {MAX_PARTICIPANTS}, not {}", spec.participants.len()));
    }
    if matches!(spec.unit, PrivacyUnit::Speaker | PrivacyUnit::Words) {
        say("unit", "query logs have no speakers and no recorded words; use `record` or `user`".to_owned());
    }
    if !spec.participants.is_empty() && spec.participants.iter().all(|party| party.gate.is_none()) {
        say("participants", "nobody asks anything: give at least one participant a gate".to_owned());
    }
    let mut ids = HashSet::new();
    for (index, party) in spec.participants.iter().enumerate() {
        let at = |field: &str| format!("participants.{index}.{field}");
        if !ids.insert(party.dataset) {
            say(&at("dataset"), "each dataset takes part once".to_owned());
        }
        let dataset = find(datasets, party.dataset);
        match dataset {
            None => say(&at("dataset"), "no such dataset in this consortium".to_owned()),
            Some(dataset) => check_dataset(spec, index, dataset, &at("dataset"), say),
        }
        if party.gate.is_none() && index > 0 {
            let give = "only the lead may ask nothing: give a gate, or leave this participant out";
            say(&at("gate"), give.to_owned());
        }
        let public = dataset.is_some_and(|dataset| dataset.visibility == Visibility::Public);
        if let Some(gate) = party.gate {
            check_gate(spec, &gate, public, &|field| at(&format!("gate.{field}")), say);
        }
    }
}

fn check_dataset(spec: &Spec, index: usize, dataset: &Dataset, field: &str, say: &mut impl FnMut(&str, String)) {
    let name = &dataset.name;
    let public = dataset.visibility == Visibility::Public;
    if dataset.content != DatasetContent::Queries {
        say(field, format!("`{name}` contains {}; questions are asked of query logs", dataset.content.noun()));
        return;
    }
    let leads_privately = index == 0 && spec.private_lead.is_some();
    if index == 0 && !public && !leads_privately {
        let how = "the first participant leads: it must be public, or `private_lead` must state its training";
        say(field, how.to_owned());
    } else if index == 0 {
        check_classes(spec, dataset, field, say);
        if public && spec.golden <= 1_000_000 && u64::from(spec.golden) > dataset.records.most() {
            let has = dataset.records.0;
            say("golden", format!("`{name}` has about {has} examples; take at most as many as there are"));
        }
    }
    if !public
        && (index > 0 || leads_privately)
        && matches!(spec.unit, PrivacyUnit::Record | PrivacyUnit::User)
        && !dataset.keeps_apart(spec.unit)
    {
        let other = if spec.unit == PrivacyUnit::User {
            "no column of users; use `record`"
        } else {
            "rows that belong together; use `user`"
        };
        say("unit", format!("`{name}` has {other}, or ask its owner"));
    }
}

fn check_gate(
    spec: &Spec,
    gate: &Gate,
    public: bool,
    at: &impl Fn(&str) -> String,
    say: &mut impl FnMut(&str, String),
) {
    check_range(say, &at("threshold"), f64::from(gate.threshold.get()), 1.0, 1e6);
    let most = if spec.unit == PrivacyUnit::Record { 1 } else { 1000 };
    if gate.rows_per_unit.get() > most {
        let rows = gate.rows_per_unit;
        let say_what = match spec.unit {
            PrivacyUnit::User | PrivacyUnit::Speaker | PrivacyUnit::Words => format!("from 1 to {most}, not {rows}"),
            PrivacyUnit::Record => {
                format!("1, not {rows}: a row is one row; protect users where one of them may have several")
            }
        };
        say(&at("rows_per_unit"), say_what);
    }
    if public {
        return;
    }
    let rate = gate.sampling_rate.get();
    let epsilon = gate.epsilon.get();
    if rate >= 1.0 {
        let less = "less than 1: without sampling k-anonymity promises nothing; only public data may be shown so";
        say(&at("sampling_rate"), less.to_owned());
        return;
    }
    let least = least_epsilon(gate.shown, rate);
    if epsilon < least {
        let set = if gate.shows_counts() { ", or show only the set of texts" } else { "" };
        say(
            &at("epsilon"),
            format!("at least {least:.4} at this sampling rate, not {epsilon}: raise it, sample less{set}"),
        );
        return;
    }
    if gate.threshold.get() > 1_000_000 || gate.rows_per_unit.get() > most {
        return;
    }
    if mechanism::guarantee(&gate.event(), Adjacency::ZeroOut).is_err() {
        let void = "its delta would reach 1, which promises nothing: raise the threshold, sample less, or allow fewer rows of a user";
        say(&at("threshold"), void.to_owned());
    }
}
