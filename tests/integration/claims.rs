//! Every claim in Undertone's texts is listed in `docs/src/explanation/claims.md` with its support: a test, a theorem, or
//! the claim's limit. A claim without an entry fails here, and so does an entry whose claim or test no longer exists.

pub(super) mod places;
mod sentences;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::architecture::sources::FOLDERS;

const LIST: &str = "docs/src/explanation/claims.md";

/// The possible beginnings of the second cell of an entry.
const KINDS: [&str; 4] = ["test `", "theorem: ", "limit: ", "no promise: "];

/// Returns the entries of the list: each claim with its support.
fn entries() -> BTreeMap<String, String> {
    let text =
        fs::read_to_string(support::workspace::root().join(LIST)).unwrap_or_else(|error| panic!("{LIST}: {error}"));
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | "));
    let entries: BTreeMap<String, String> = rows
        .filter(|(claim, _)| *claim != "claim")
        .map(|(claim, holds)| (claim.replace("\\|", "|"), holds.to_owned()))
        .collect();
    assert!(!entries.is_empty(), "{LIST} has no entries");
    entries
}

#[test]
fn every_claim_has_an_entry() {
    let entries = entries();
    let claims = places::all();
    let missing = claims.iter().filter(|(claim, _)| !entries.contains_key(*claim));
    let missing: Vec<String> =
        missing.map(|(claim, place)| format!("{place}\n| {} | ", claim.replace('|', "\\|"))).collect();
    assert!(missing.is_empty(), "add these claims to {LIST}, or say less:\n{}", missing.join("\n"));
    let obsolete: Vec<&str> = entries.keys().filter(|claim| !claims.contains_key(*claim)).map(String::as_str).collect();
    assert!(
        obsolete.is_empty(),
        "nothing makes these claims any more; remove them from {LIST}:\n{}",
        obsolete.join("\n")
    );
}

#[test]
fn every_entry_names_a_test_a_theorem_or_a_limit() {
    let functions = functions();
    for (claim, holds) in entries() {
        assert!(KINDS.iter().any(|kind| holds.starts_with(kind)), "{claim}\n{holds}: begin with one of {KINDS:?}");
        let names = holds.split("test `").skip(1).filter_map(|rest| rest.split('`').next());
        for name in names {
            let function = name.rsplit("::").next().unwrap_or(name);
            assert!(functions.contains(function), "{claim}\nthere is no test `{name}`");
        }
    }
}

/// Checks that every test in the threat model exists.
#[test]
fn threat_model_names_existing_tests() {
    let text = fs::read_to_string(support::workspace::root().join("SECURITY.md")).expect("a text file");
    let model = text.split_once("## Threat model").expect("the document has a threat model").1;
    let functions = functions();
    // Names of tests are the only code in it that has three underscores or more.
    let names: Vec<&str> = model.split('`').skip(1).step_by(2).filter(|code| code.matches('_').count() >= 3).collect();
    assert!(names.len() >= 20, "{names:?}");
    let missing: Vec<&&str> = names.iter().filter(|name| !functions.contains(**name)).collect();
    assert!(missing.is_empty(), "SECURITY.md names tests that do not exist: {missing:?}");
}

/// Returns the names of all test functions in the workspace.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let root = support::workspace::root();
    for folder in FOLDERS.into_iter().chain(["tests/integration"]) {
        collect(&root.join(folder), &mut names);
    }
    names
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a text file");
            // Attributes inside `proptest!` stand before the function too.
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                if let Some((_, rest)) = line.split_once("fn ") {
                    // The server's tests for both databases are in a macro of their own.
                    let is_on_both = line.starts_with("async fn ") && line.contains("&TestApp");
                    let name = rest.split(['(', '<']).next();
                    names.extend(name.filter(|_| is_test || is_on_both).map(str::to_owned));
                    is_test = false;
                }
            }
        }
    }
}
