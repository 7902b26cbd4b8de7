//! Examples: JSON is read by the contract, and named REST addresses exist.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};
use support::workspace;
use undertone_api::job::{NewJob, Spec};

use super::pages::{extract_fenced, extract_inline_code, load_all};

/// The table of REST addresses with their rights; a test of the server compares it with the OpenAPI document.
const MATRIX: &str = "server/src/matrix/rest.rs";

/// Pages of specs: their first example is the spec of a kind.
const SPECS: [(&str, &str); 5] = [
    ("docs/src/reference/jobs/active-learning.md", "active_learning"),
    ("docs/src/reference/jobs/analytics.md", "analytics"),
    ("docs/src/reference/jobs/dp-sgd.md", "dp_sgd"),
    ("docs/src/reference/jobs/evaluation.md", "evaluation"),
    ("docs/src/reference/jobs/transcription.md", "transcription"),
];

#[test]
fn job_examples_are_read_by_the_contract() {
    let (mut jobs, mut specs) = (0, 0);
    for page in load_all() {
        let kind = SPECS.iter().find(|(path, _)| *path == page.path).map(|(_, kind)| *kind);
        for (index, block) in extract_fenced(&page.text, "json").into_iter().enumerate() {
            let value: Value = serde_json::from_str(&block).unwrap_or_else(|error| panic!("{}: {error}", page.path));
            if value.get("kind").is_some() && value.get("title").is_some() {
                serde_json::from_value::<NewJob>(value).unwrap_or_else(|error| panic!("{}: {error}", page.path));
                jobs += 1;
            } else if let Some(kind) = kind.filter(|_| index == 0) {
                let spec = json!({ "kind": kind, "spec": value });
                serde_json::from_value::<Spec>(spec).unwrap_or_else(|error| panic!("{}: {error}", page.path));
                specs += 1;
            }
        }
    }
    assert_eq!((jobs, specs), (3, SPECS.len()));
    assert_eq!(BTreeSet::from(SPECS.map(|(_, kind)| kind)), Spec::KINDS.iter().copied().collect());
}

/// Returns an address with the names of its parameters removed: `GET /jobs/{}`.
fn remove_parameter_names(address: &str) -> String {
    let mut parts = address.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.filter_map(|part| part.split_once('}')).fold(first, |address, (_, rest)| address + "{}" + rest)
}

#[test]
fn rest_addresses_exist() {
    let matrix = fs::read_to_string(workspace::root().join(MATRIX)).expect("a text file");
    let lines = matrix.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once('"'));
    let address = |text: &str| text.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let addresses: BTreeSet<String> = lines.map(|(text, _)| remove_parameter_names(&address(text))).collect();
    let (mut mentions, mut missing) = (BTreeSet::new(), Vec::new());
    for page in load_all() {
        for code in extract_inline_code(&page) {
            let Some((method, path)) = code.split_once(' ') else { continue };
            let is_method = ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method);
            if is_method && path.starts_with('/') {
                let path = path.strip_prefix("/api/v1").unwrap_or(path);
                let address = remove_parameter_names(&format!("{method} {path}"));
                if !addresses.contains(&address) {
                    missing.push(format!("{}: {code}", page.path));
                }
                mentions.insert(address);
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    assert!(mentions.len() > 10, "{mentions:?}");
}

#[test]
fn names_of_parameters_do_not_matter() {
    assert_eq!(remove_parameter_names("GET /jobs/{job}/log/{x}"), "GET /jobs/{}/log/{}");
    assert_eq!(remove_parameter_names("POST /plans"), "POST /plans");
}
