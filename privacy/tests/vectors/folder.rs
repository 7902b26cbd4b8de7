//! Which files there are: one that nobody tests is a failure.

use crate::case::folder;

/// Tested here, every case.
const HERE: [&str; 11] =
    ["audit", "gaussian", "group", "ledger", "lqs", "lqs_set", "noise", "pld", "preech", "private_selection", "rdp"];

/// Tested beside the worker's features and sketches.
const ELSEWHERE: [&str; 2] = ["mfcc", "sketch"];

#[test]
fn every_file_of_vectors_is_tested_somewhere() {
    let entries = std::fs::read_dir(folder()).unwrap_or_else(|error| panic!("{}: {error}", folder().display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder().display())).path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        let known = HERE.contains(&name) || ELSEWHERE.contains(&name);
        assert!(known || path.extension().is_none_or(|ending| ending != "json"), "nobody tests {}", path.display());
    }
}
