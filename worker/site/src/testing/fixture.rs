//! Locations of test vectors and test data.
//!
//! `UNDERTONE_VECTORS` and `UNDERTONE_DATA` name the folders, by default `tests/vectors` and `tests/data` (relative to
//! the root of the workspace). A missing vector file fails the test. A test skips data that the default folder lacks,
//! with a line on stderr; data that `UNDERTONE_DATA` lacks fail it. `UNDERTONE_ALIGNER` names a Python with
//! PocketSphinx in the same way.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Reads a file of test vectors.
pub fn vectors(name: &str) -> Value {
    let path = folder("UNDERTONE_VECTORS", "vectors").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set UNDERTONE_VECTORS to the folder of vectors", path.display()));
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(file["cases"].as_array().is_some_and(|cases| !cases.is_empty()), "{}: no cases", path.display());
    file
}

/// Returns every case of a file of test vectors, in order; there is at least one.
pub fn cases(name: &str) -> Vec<Value> {
    vectors(name)["cases"].as_array().cloned().unwrap_or_default()
}

/// Returns a folder of test data.
pub fn data(name: &str) -> Option<PathBuf> {
    find("UNDERTONE_DATA", "data", name)
}

/// Returns a Python with PocketSphinx: the value of `UNDERTONE_ALIGNER`, or the one made by `.ci/aligner.sh`.
pub fn aligner() -> Option<PathBuf> {
    if let Some(asked) = std::env::var_os("UNDERTONE_ALIGNER").filter(|asked| !asked.is_empty()) {
        return Some(asked.into());
    }
    let below = |variable: &str, rest: &str| std::env::var_os(variable).map(|folder| Path::new(&folder).join(rest));
    let cache = below("UNDERTONE_CACHE", "")
        .or_else(|| below("XDG_CACHE_HOME", "undertone"))
        .or_else(|| below("HOME", ".cache/undertone"));
    let python = cache?.join("tools/pocketsphinx-5.1.1/bin/python");
    if python.exists() {
        return Some(python);
    }
    eprintln!("passed over: no PocketSphinx; run .ci/aligner.sh to make one");
    None
}

fn find(variable: &str, folder: &str, name: &str) -> Option<PathBuf> {
    let path = self::folder(variable, folder).join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os(variable).is_none(), "{variable} is set, but {} is not there", path.display());
    eprintln!("passed over: no {name}; set {variable} to run this test");
    None
}

/// Returns the folder in an environment variable, or the default one, relative to the root of the workspace.
fn folder(variable: &str, usual: &str) -> PathBuf {
    let folder = std::env::var_os(variable).map_or_else(|| Path::new("tests").join(usual), PathBuf::from);
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)
}
