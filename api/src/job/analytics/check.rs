//! The requirements on an `analytics` spec, checked before approval is requested.

use std::collections::HashSet;

use undertone_privacy::PrivacyUnit;

use super::Spec;
use super::query::{AggregateMeasure, GroupKey, TableQuery};
use super::selection::MOST_SELECTED;
use super::statistic::LEVELS;
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::job::check::{check_range, find_other_encoder};
use crate::problem::Violation;
use crate::table::{ColumnKind, MOST_COLUMNS, TableSchema};

/// The most participants in a job.
const MOST_PARTICIPANTS: usize = 100;
/// The most queries.
pub const MOST_QUERIES: usize = 32;
/// The most aggregates of a query.
pub const MOST_AGGREGATES: usize = 64;
/// The most keys of a query.
const MOST_KEYS: usize = 4;
/// The longest name of a query, in characters.
const LONGEST_NAME: usize = 100;
/// The greatest limit on rows and on groups of a unit.
const MOST_CONTRIBUTION: f64 = 1000.0;
/// The most quantiles of an aggregate.
const MOST_QUANTILES: usize = 99;
/// The numbers of columns of a covariance matrix.
const COVARIANCE: (usize, usize) = (2, 16);
/// The range of a share.
const SHARE: (f64, f64) = (0.001, 1000.0);
/// The noise multipliers for which the sites can draw noise exactly.
const NOISE: (f64, f64) = (1.0 / 1024.0, 1024.0);

pub(super) fn check(spec: &Spec, datasets: &[Dataset]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
    if spec.unit != PrivacyUnit::User {
        say("unit", "`user`: the values of the table's column of units".to_owned());
    }
    check_range(&mut say, "noise_multiplier", spec.noise_multiplier.get(), NOISE.0, NOISE.1);
    check_range(&mut say, "deadline_seconds", f64::from(spec.deadline_seconds), 1.0, 86_400.0);
    check_range(&mut say, "quorum", f64::from(spec.quorum), 1.0, spec.participants.len().max(1) as f64);
    if spec.has_queries_by_site() && spec.quorum as usize != spec.participants.len() {
        let sites = spec.participants.len();
        say("quorum", format!("{sites}, the number of sites: a query by site needs the vector of each"));
    }
    check_participants(spec, datasets, &mut say);
    if !(1..=MOST_QUERIES).contains(&spec.queries.len()) {
        say("queries", format!("1 to {MOST_QUERIES} queries, not {}", spec.queries.len()));
    }
    for (index, query) in spec.queries.iter().enumerate() {
        check_query(&format!("queries.{index}"), query, &mut say);
    }
    let has_columns = check_columns(spec, datasets, &mut say);
    if violations.is_empty()
        && has_columns
        && let Err(error) = spec.layout().and_then(|_| spec.key_layout())
    {
        violations.push(Violation::new(format!("spec.{}", error.field()), error.to_string()));
    }
    violations
}

fn check_participants(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    if !(1..=MOST_PARTICIPANTS).contains(&spec.participants.len()) {
        say("participants", format!("1 to {MOST_PARTICIPANTS} sites, not {}", spec.participants.len()));
    }
    let mut ids = HashSet::new();
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
        if dataset.content != DatasetContent::Table {
            say(&field, format!("`{name}` contains {}; choose a table", dataset.content.noun()));
        }
        if dataset.visibility != Visibility::Public && !dataset.keeps_apart(spec.unit) {
            say("unit", format!("`{name}` does not keep these units apart; add the table with a column of units"));
        }
    }
}

/// Checks that the columns are declared alike by all participants. Returns whether they are.
fn check_columns(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) -> bool {
    let schema = TableSchema { unit_column: "unit".to_owned(), columns: spec.columns.clone(), encoder: None };
    let mut is_valid = true;
    if spec.columns.len() > MOST_COLUMNS {
        say("columns", format!("at most {MOST_COLUMNS} columns, not {}", spec.columns.len()));
        return false;
    }
    if let Some(problem) = find_other_encoder(datasets.iter().filter(|dataset| spec.is_participant(dataset.id))) {
        say("participants", problem);
        is_valid = false;
    }
    let mut names = HashSet::new();
    for (index, column) in schema.columns.iter().enumerate() {
        if !names.insert(&column.name) {
            say(&format!("columns.{index}.name"), "each column is named once".to_owned());
            is_valid = false;
        }
        if let Some((field, text)) = column.find_problem() {
            say(&format!("columns.{index}.{field}"), text);
            is_valid = false;
        }
        if let ColumnKind::Text { .. } = column.kind {
            say(
                &format!("columns.{index}.kind"),
                "another kind: texts train models, and have no statistics".to_owned(),
            );
            is_valid = false;
        }
        let tables = datasets.iter().filter(|dataset| spec.is_participant(dataset.id));
        for (dataset, table) in tables.filter_map(|dataset| dataset.table.as_ref().map(|table| (dataset, table))) {
            let (name, site) = (&column.name, &dataset.name);
            let problem = match table.find_column(name) {
                Some((_, kind)) if *kind == column.kind => continue,
                Some(_) => {
                    format!("`{site}` declares column `{name}` with another kind or range; all sites must agree")
                }
                None => format!("`{site}` has no column `{name}`"),
            };
            say(&format!("columns.{index}"), problem);
            is_valid = false;
        }
    }
    is_valid
}

fn check_query(path: &str, query: &TableQuery, say: &mut impl FnMut(&str, String)) {
    if query.name.trim().is_empty() || query.name.chars().count() > LONGEST_NAME {
        say(&format!("{path}.name"), format!("1 to {LONGEST_NAME} characters"));
    }
    if query.group_by.len() > MOST_KEYS {
        say(&format!("{path}.group_by"), format!("at most {MOST_KEYS} keys, not {}", query.group_by.len()));
    }
    for (index, key) in query.group_by.iter().enumerate() {
        if let GroupKey::Selected { most, .. } = key {
            let field = format!("{path}.group_by.{index}.most");
            check_range(say, &field, f64::from(*most), 1.0, f64::from(MOST_SELECTED));
        }
    }
    check_range(say, &format!("{path}.limits.rows"), f64::from(query.limits.rows), 1.0, MOST_CONTRIBUTION);
    check_range(say, &format!("{path}.limits.groups"), f64::from(query.limits.groups), 1.0, MOST_CONTRIBUTION);
    if !(1..=MOST_AGGREGATES).contains(&query.aggregates.len()) {
        say(&format!("{path}.aggregates"), format!("1 to {MOST_AGGREGATES}, not {}", query.aggregates.len()));
    }
    for (index, aggregate) in query.aggregates.iter().enumerate() {
        let path = format!("{path}.aggregates.{index}");
        check_range(say, &format!("{path}.share"), aggregate.share, SHARE.0, SHARE.1);
        check_measure(&path, &aggregate.measure, say);
    }
}

fn check_measure(path: &str, measure: &AggregateMeasure, say: &mut impl FnMut(&str, String)) {
    match measure {
        AggregateMeasure::Quantiles { probabilities, levels, .. } => {
            let is_inside = |one: &f64| *one > 0.0 && *one < 1.0;
            let is_valid = (1..=MOST_QUANTILES).contains(&probabilities.len())
                && probabilities.iter().all(is_inside)
                && probabilities.windows(2).all(|pair| pair[0] < pair[1]);
            if !is_valid {
                let text = format!("1 to {MOST_QUANTILES} probabilities between 0 and 1, ascending");
                say(&format!("{path}.probabilities"), text);
            }
            check_range(say, &format!("{path}.levels"), f64::from(*levels), f64::from(LEVELS.0), f64::from(LEVELS.1));
        }
        AggregateMeasure::Covariance { columns } => {
            let (least, most) = COVARIANCE;
            let distinct: HashSet<&String> = columns.iter().collect();
            if !(least..=most).contains(&columns.len()) || distinct.len() < columns.len() {
                say(&format!("{path}.columns"), format!("{least} to {most} columns, each once"));
            }
        }
        AggregateMeasure::LinearRegression { target, features } => {
            let most = COVARIANCE.1 - 1;
            let distinct: HashSet<&String> = features.iter().chain([target]).collect();
            if !(1..=most).contains(&features.len()) || distinct.len() <= features.len() {
                say(&format!("{path}.features"), format!("1 to {most} columns, each once and without the target"));
            }
        }
        _ => {}
    }
}
