//! Runs binaryen's `wasm-opt` over the wasm.

use std::{path::Path, process::Command};

use crate::BundleError;

/// Features of all recent browsers. Listed one by one: `--all-features` emits sections that browsers reject.
const FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-reference-types",
    "--enable-mutable-globals",
    "--enable-sign-ext",
    "--enable-nontrapping-float-to-int",
    "--enable-multivalue",
];

/// Optimizes `wasm` for size, in place, with the `wasm-opt` at `program`.
pub(crate) fn in_place(program: &Path, wasm: &Path) -> Result<(), BundleError> {
    let output = Command::new(program)
        .arg("-Oz")
        .args(FEATURES)
        .arg(wasm)
        .arg("-o")
        .arg(wasm)
        .output()
        .map_err(|source| BundleError::OptimizerMissing { path: program.to_owned(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(BundleError::OptimizerFailed { path: program.to_owned(), stderr })
}
