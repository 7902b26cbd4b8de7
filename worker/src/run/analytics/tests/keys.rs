//! Jobs that choose their groups: one release of the choice, then one of the aggregates.

use std::fmt::Write as _;

use serde_json::json;
use undertone_api::job::analytics::{KEYS, Spec, VECTOR};

use super::super::KEY_ROUND;
use super::{PARTICIPANTS, ROUND, TestAnalysis, add_table, dataset, numbers};
use crate::run::fake::CrashPoint;

/// The codes, each with its patients at each site.
const CODES: [(&str, usize); 3] = [("I21.4", 60), ("E11", 40), ("J45", 2)];

fn columns() -> serde_json::Value {
    json!([{ "name": "code", "kind": "key", "longest": 6 }, { "name": "age", "kind": "integer", "least": 0, "most": 100 }])
}

fn spec(noise_multiplier: f64) -> Spec {
    let parties: Vec<_> = (0..PARTICIPANTS).map(|index| json!({ "dataset": dataset(index) })).collect();
    serde_json::from_value(json!({
        "unit": "user",
        "participants": parties,
        "columns": columns(),
        "queries": [
            { "name": "by code", "group_by": [{ "by": "selected", "column": "code", "most": 5 }], "aggregates": [
                { "aggregate": "count_units" }, { "aggregate": "mean", "column": "age" },
            ] },
        ],
        "noise_multiplier": noise_multiplier,
        "quorum": 3,
        "deadline_seconds": 60,
    }))
    .unwrap()
}

/// Returns a job over tables with a row for each patient, whose age depends on the code.
fn job(noise_multiplier: f64) -> TestAnalysis {
    TestAnalysis::with(spec(noise_multiplier), |path, site| {
        let mut text = "patient,code,age\n".to_owned();
        for (place, (code, patients)) in CODES.into_iter().enumerate() {
            for number in 0..patients {
                // Small letters and blanks do not make another key.
                let code = if number % 2 == 0 { code.to_ascii_lowercase() } else { format!(" {code} ") };
                writeln!(text, "{place}-{number},{code},{}", 30 + 20 * place).unwrap();
            }
        }
        writeln!(text, "other,no key at all,1\nnone,,1").unwrap();
        add_table(path, site, serde_json::from_value(columns()).unwrap(), &text);
    })
}

#[test]
fn frequent_keys_become_groups_with_exact_members() {
    let job = job(1.0 / 1024.0);
    job.run_all();
    let report = job.report();
    let groups: Vec<&[String]> = report.queries[0].cells.iter().map(|cell| &cell.groups[..]).collect();
    assert_eq!(groups, [["E11"], ["I21.4"], ["J45"]], "without noise each key is found");
    for (cell, (patients, age)) in [(120.0, 50.0), (180.0, 30.0), (6.0, 70.0)].into_iter().enumerate() {
        assert!((numbers(&report, 0, cell, 0)[0] - patients).abs() < 0.5, "{cell}");
        assert!((numbers(&report, 0, cell, 1)[0] - age).abs() < 1.0, "{cell}");
    }
    for site in 0..PARTICIPANTS {
        let mut state = job.server.state();
        let mut series: Vec<String> = state.site(site).releases.keys().map(|(series, _)| series.clone()).collect();
        series.sort();
        assert_eq!((series, state.site(site).payments), (vec![KEYS.to_owned(), VECTOR.to_owned()], 2));
    }
}

#[test]
fn key_of_few_units_is_not_chosen_under_noise() {
    let job = job(1.0);
    job.run_all();
    let report = job.report();
    let groups: Vec<&String> = report.queries[0].cells.iter().flat_map(|cell| &cell.groups).collect();
    assert!(groups.iter().all(|code| *code != "J45"), "{groups:?}");
    assert!(groups.iter().any(|code| *code == "I21.4"), "{groups:?}");
}

#[test]
fn crashes_between_the_two_releases_pay_each_once() {
    let job = job(1.0 / 1024.0);
    job.server.state().site(0).crash(CrashPoint::Stored, KEY_ROUND);
    job.server.state().site(1).crash(CrashPoint::Accepted, KEY_ROUND);
    job.server.state().site(2).crash(CrashPoint::Stored, ROUND);
    job.run_all();
    let report = job.report();
    assert_eq!((report.sites, report.queries[0].cells.len()), (3, 3));
    let payments: Vec<u32> = (0..PARTICIPANTS).map(|index| job.server.state().site(index).payments).collect();
    assert_eq!(payments, [2; 3]);
}
