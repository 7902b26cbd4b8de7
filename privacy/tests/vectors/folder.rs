//! The existing files of vectors: a file without a test is a failure.

use crate::case::folder;

/// Files that this crate tests, every case.
const HERE: [&str; 11] =
    ["audit", "gaussian", "group", "ledger", "lqs", "lqs_set", "noise", "pld", "preech", "private_selection", "rdp"];

/// Files that the tests of the worker's features and sketches, and of secure aggregation, cover.
const ELSEWHERE: [&str; 3] = ["mfcc", "secure_aggregation", "sketch"];

#[test]
fn every_vector_file_has_a_test() {
    let entries = std::fs::read_dir(folder()).unwrap_or_else(|error| panic!("{}: {error}", folder().display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder().display())).path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        let is_tested = HERE.contains(&name) || ELSEWHERE.contains(&name);
        assert!(
            is_tested || path.extension().is_none_or(|ending| ending != "json"),
            "no test reads {}",
            path.display()
        );
    }
}
