//! The size of the files that a browser loads.

use std::fs;

use serde_json::{Value, json};

use crate::report::{Outcome, Report};

/// Prints each file of the bundle with its raw and compressed size; `make bundle` builds the measured files.
pub(crate) fn run(report: &mut Report) -> Outcome {
    let path = support::workspace::root().join("app/dist/manifest.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}: run `make bundle`", path.display()))?;
    let manifest: Value = serde_json::from_str(&text)?;
    let files = manifest["files"].as_array().ok_or("the manifest lists no files")?;
    for file in files {
        report.line(json!({
            "file": file["file"], "optimized": manifest["optimized"],
            "bytes": file["bytes"], "gzip": file["gzip"], "brotli": file["brotli"],
        }))?;
    }
    Ok(())
}
