//! Reference values for tests: JSON files in `tests/vectors`, or in the folder `UNDERTONE_VECTORS` (relative to the
//! root of the workspace). A missing file fails the test.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns every case of a file, in order; there is at least one.
pub(crate) fn cases(name: &str) -> Vec<Value> {
    let folder = std::env::var_os("UNDERTONE_VECTORS").map_or_else(|| "tests/vectors".into(), PathBuf::from);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set UNDERTONE_VECTORS to the folder of vectors", path.display()));
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cases = file["cases"].as_array().cloned().unwrap_or_default();
    assert!(!cases.is_empty(), "{}: no cases", path.display());
    cases
}

/// Returns the cases of a file of one kind; panics at a kind that is neither this one nor tested elsewhere.
pub(crate) fn select_kind(name: &str, kind: &str, elsewhere: &[&str]) -> Vec<Value> {
    let ours = |case: &Value| {
        let case_kind = case["kind"].as_str().unwrap_or_default();
        assert!(
            case_kind == kind || elsewhere.contains(&case_kind),
            "{name}, {}: no rule for kind `{case_kind}`",
            case["id"]
        );
        case_kind == kind
    };
    let ours: Vec<Value> = cases(name).into_iter().filter(ours).collect();
    assert!(!ours.is_empty(), "{name}: no case of kind `{kind}`");
    ours
}
